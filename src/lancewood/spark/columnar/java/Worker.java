package io.lancewood.spark;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.SocketChannel;
import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.spark.TaskContext;

/**
 * A Python process that does one thing at a time for a task: the connection to it, and the memory
 * that it shares.
 */
final class Worker {
  private static final int BUFFER = 1 << 16;
  private static final int CHUNK = 1 << 16;

  final DataInputStream in;
  final DataOutputStream out;
  /** The work that the process has already. */
  byte[] known;
  /** Whether it has served a task before. */
  boolean isUsed;
  /** The task that has it, or null. */
  TaskContext task;
  long idleSince;
  private final SocketChannel channel;
  private ByteBuffer memory;
  private long base;

  Worker(SocketChannel channel) {
    this.channel = channel;
    in = new DataInputStream(new BufferedInputStream(Channels.newInputStream(channel), BUFFER));
    out = new DataOutputStream(new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER));
  }

  /** Whether the process is there, as far as its connection tells; only for an idle one. */
  boolean isAlive() {
    try {
      channel.configureBlocking(false);
      int found = channel.read(ByteBuffer.allocate(1));
      channel.configureBlocking(true);
      return found == 0;
    } catch (IOException gone) {
      return false;
    }
  }

  /** Let go of the process: it ends when it notices. A thread that waits for it gets an error. */
  void end() {
    try {
      channel.close();
    } catch (IOException closed) {
      return;
    }
  }

  /** The error that it answers with. Whether it has its work since then, nobody knows. */
  RuntimeException readError() throws IOException {
    known = null;
    String sentence = Protocol.readText(in);
    return PythonFailure.of(sentence, Protocol.readText(in));
  }

  /** Map memory of the process; false if that cannot be done here. */
  boolean map(String path, long size) {
    try {
      RandomAccessFile file = new RandomAccessFile(path, "r");
      try {
        memory = file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, size);
      } finally {
        file.close();
      }
    } catch (IOException hidden) {
      return false;
    }
    base = MemoryUtil.getByteBufferAddress(memory);
    return true;
  }

  /** An address in the shared memory. */
  long address(long offset) {
    return base + offset;
  }

  /** Read so many bytes into memory of our own; where they are. */
  long receive(int size) throws IOException {
    if (memory == null || memory.isReadOnly() || memory.capacity() < size) {
      memory = allocate((int) Math.min(Integer.MAX_VALUE, size + size / 4L));
    }
    memory.clear();
    byte[] chunk = new byte[CHUNK];
    int left = size;
    while (left > 0) {
      int count = Math.min(left, CHUNK);
      in.readFully(chunk, 0, count);
      memory.put(chunk, 0, count);
      left -= count;
    }
    return MemoryUtil.getByteBufferAddress(memory);
  }

  private static ByteBuffer allocate(int size) throws IOException {
    try {
      return ByteBuffer.allocateDirect(size);
    } catch (OutOfMemoryError none) {
      throw new IOException(
          "there is no room for " + size + " bytes of a table: raise -XX:MaxDirectMemorySize", none);
    }
  }
}
