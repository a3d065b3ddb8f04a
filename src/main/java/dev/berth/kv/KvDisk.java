// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import java.nio.file.Path;

/**
 * Where the disk level of a {@link KvCache} lies: in a file without a name that ends with the cache
 * (or the process). Its space is taken when the cache is made, where the file system can. Threads
 * of the cache's own read and write it; no call but {@link KvCache#await} and {@link
 * KvCache#settle} waits for them.
 *
 * @param directory that the file is made in
 * @param threads 1 to 64; in emulation there are none, {@link KvCache#run} does their work
 * @param depth pages under way at a time, 2 to 65536, and twice the layout's life cycles at least:
 *     half of them may be on their way down, what is evicted beyond is dropped
 */
public record KvDisk(Path directory, int threads, int depth) {
  /** Four threads, 256 pages under way. */
  public static KvDisk in(Path directory) {
    return new KvDisk(directory, 4, 256);
  }
}
