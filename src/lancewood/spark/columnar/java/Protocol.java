package io.lancewood.spark;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * The words between Java and a worker, and how texts and bytes travel: a length, then as many
 * bytes. {@code columnar/protocol.py} has the same.
 */
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

  private static final int NONE = -1;

  private Protocol() {}

  /** Map what the worker offers, and tell it whether that was possible. */
  static void map(Worker worker) throws IOException {
    String path = readText(worker.in);
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

  static byte[] readBytes(DataInputStream in) throws IOException {
    int size = in.readInt();
    if (size == NONE) {
      return null;
    }
    byte[] found = new byte[size];
    in.readFully(found);
    return found;
  }

  static byte[][] readMany(DataInputStream in) throws IOException {
    byte[][] found = new byte[in.readInt()][];
    for (int i = 0; i < found.length; i++) {
      found[i] = readBytes(in);
    }
    return found;
  }

  static String readText(DataInputStream in) throws IOException {
    byte[] found = readBytes(in);
    return found == null ? null : new String(found, StandardCharsets.UTF_8);
  }

  static String[] readTexts(DataInputStream in) throws IOException {
    String[] found = new String[in.readInt()];
    for (int i = 0; i < found.length; i++) {
      found[i] = readText(in);
    }
    return found;
  }

  static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes == null ? NONE : bytes.length);
    if (bytes != null) {
      out.write(bytes);
    }
  }

  static void writeMany(DataOutputStream out, byte[][] many) throws IOException {
    out.writeInt(many.length);
    for (int i = 0; i < many.length; i++) {
      writeBytes(out, many[i]);
    }
  }

  static void writeText(DataOutputStream out, String text) throws IOException {
    writeBytes(out, text == null ? null : text.getBytes(StandardCharsets.UTF_8));
  }

  static void writeTexts(DataOutputStream out, String[] texts) throws IOException {
    out.writeInt(texts.length);
    for (int i = 0; i < texts.length; i++) {
      writeText(out, texts[i]);
    }
  }
}
