package io.lancewood.spark;

import org.apache.spark.unsafe.Platform;

/**
 * One record batch of Arrow's IPC format, read where it lies in memory.
 *
 * <p>Knows as much of flatbuffers as it takes to find the buffers, in their order. The memory is
 * the caller's, and whoever wrote it is trusted.
 */
final class RecordBatchMessage {
  private static final int CONTINUATION = -1;
  private static final int RECORD_BATCH = 3;
  private static final int PREFIX = 8;

  /** How long lists are: a number for each array in order, -1 where offsets tell it. */
  int[] listSizes = {};

  int rows;
  private long nodes;
  private long buffers;
  private long body;
  private int node;
  private int buffer;
  private int list;

  /** Open the first record batch at an address; a schema before it is passed over. */
  void open(long address) {
    long next = address;
    do {
      next = openNext(next);
    } while (rows < 0);
  }

  /** The number of nulls of the next array, in the order of the columns and what is below them. */
  int nextNulls() {
    return (int) Platform.getLong(null, nodes + 16L * node++ + 8);
  }

  /** The address of the next buffer. */
  long nextBuffer() {
    return body + Platform.getLong(null, buffers + 16L * buffer++);
  }

  /** The length of the next lists, all alike; -1 if it varies. */
  int nextListSize() {
    return listSizes[list++];
  }

  private long openNext(long address) {
    if (Platform.getInt(null, address) != CONTINUATION) {
      throw new IllegalStateException("there is no Arrow message where the worker said");
    }
    long message = target(address + PREFIX);
    long length = field(message, 3);
    body = address + PREFIX + Platform.getInt(null, address + 4);
    rows = -1;
    if (Platform.getByte(null, field(message, 1)) == RECORD_BATCH) {
      long batch = target(field(message, 2));
      long counted = field(batch, 0);
      rows = counted == 0 ? 0 : (int) Platform.getLong(null, counted);
      nodes = target(field(batch, 1)) + 4;
      buffers = target(field(batch, 2)) + 4;
      node = 0;
      buffer = 0;
      list = 0;
    }
    return body + (length == 0 ? 0 : Platform.getLong(null, length));
  }

  /** Where a field of a flatbuffers table is; 0 if it has its default. */
  private static long field(long table, int number) {
    long layout = table - Platform.getInt(null, table);
    int entry = 4 + 2 * number;
    if (entry >= (Platform.getShort(null, layout) & 0xffff)) {
      return 0;
    }
    int offset = Platform.getShort(null, layout + entry) & 0xffff;
    return offset == 0 ? 0 : table + offset;
  }

  private static long target(long reference) {
    return reference + Platform.getInt(null, reference);
  }
}
