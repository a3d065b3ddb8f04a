// SPDX-License-Identifier: Apache-2.0
/** Native loader, status mapping and the calls into the generated bindings. Not exported. */
package dev.berth.internal;
