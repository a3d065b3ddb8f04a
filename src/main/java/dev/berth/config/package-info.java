// SPDX-License-Identifier: Apache-2.0
/**
 * Reading of files: a strict reader over YAML and JSON, serving configurations of three engines,
 * scenarios. Every error names file, line and field.
 */
package dev.berth.config;
