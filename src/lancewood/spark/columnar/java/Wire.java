package io.lancewood.spark;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Texts and bytes on their way between Java and Python: a length, then as many bytes. */
final class Wire {
  private static final int NONE = -1;

  private Wire() {}

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
