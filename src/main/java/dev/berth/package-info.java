/** What every package of Berth shares. */
package dev.berth;
