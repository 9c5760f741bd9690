package io.lancewood.spark;

import java.io.DataInputStream;
import java.io.IOException;

/** The words between Java and a worker; {@code columnar/protocol.py} has the same. */
final class Protocol {
  /** Requests. */
  static final int READ = 1;
  static final int PLAN = 2;

  /** What Java says while it is answered. */
  static final int STOP = 0;
  static final int NEXT = 1;
  static final int MAPPED = 2;
  static final int NOT_MAPPED = 3;

  /** Answers. */
  static final int MEMORY = 1;
  static final int LIST_SIZES = 2;
  static final int BATCH = 3;
  static final int BATCH_HERE = 4;
  static final int END = 5;
  static final int ERROR = 6;
  static final int PLANNED = 7;
  static final int DELEGATED = 8;

  private Protocol() {}

  /** Map what the worker offers, and tell it whether that was possible. */
  static void map(Worker worker) throws IOException {
    String path = Wire.readText(worker.in);
    boolean isMapped = worker.map(path, worker.in.readLong());
    worker.out.write(isMapped ? MAPPED : NOT_MAPPED);
    worker.out.flush();
  }

  static int[] readInts(DataInputStream in) throws IOException {
    int[] found = new int[in.readInt()];
    for (int i = 0; i < found.length; i++) {
      found[i] = in.readInt();
    }
    return found;
  }

  /**
   * Read to the end of an answer that nobody wants; false if the worker is lost. Memory is not
   * offered to one who has said that.
   */
  static boolean passOver(Worker worker) throws IOException {
    while (true) {
      switch (worker.in.readInt()) {
        case LIST_SIZES:
          readInts(worker.in);
          break;
        case BATCH:
          worker.in.readLong();
          worker.in.readLong();
          break;
        case BATCH_HERE:
          worker.receive(worker.in.readInt());
          break;
        case END:
          worker.in.readLong();
          return true;
        case ERROR:
          worker.readError();
          return true;
        default:
          return false;
      }
    }
  }
}
