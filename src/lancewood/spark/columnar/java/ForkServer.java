package io.lancewood.spark;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Timer;
import java.util.TimerTask;

/**
 * A Python process that has imported everything, reads nothing, and forks a worker for each
 * connection. It ends when its input does, so it does not outlive this Java.
 */
final class ForkServer {
  private static final String MODULE = "lancewood.spark.worker_server";
  private static final String READY = "lancewood workers: ";
  private static final String MARK = "mark";
  private static final int SECRET = 32;
  private static final long MOST_SECONDS = 120;

  private final Process process;
  private final byte[] secret = new byte[SECRET];
  private final String socket;

  /** Start one; takes as long as Python's imports do, up to two minutes. */
  ForkServer(PythonCommand command) throws IOException {
    new SecureRandom().nextBytes(secret);
    process = command.process(MODULE, mark()).start();
    LastWords words = new LastWords(process.getErrorStream());
    words.start();
    OutputStream out = process.getOutputStream();
    try {
      out.write(secret);
      out.flush();
    } catch (IOException dead) {
      // It says why, and then there is no line.
    }
    Timer timer = new Timer("lancewood-worker-start", true);
    timer.schedule(
        new TimerTask() {
          @Override
          public void run() {
            process.destroyForcibly();
          }
        },
        MOST_SECONDS * 1000);
    socket = listening(process.getInputStream());
    timer.cancel();
    if (socket == null) {
      words.finish();
      throw new IOException(
          "the Python that reads tables does not start, or not within " + MOST_SECONDS + " s: "
              + command.executable()
              + ". Executors need the same packages as the driver; set PYSPARK_PYTHON to a Python"
              + " that has them.\n" + words.last());
    }
  }

  /** Where it listens; null if it does not. Whatever else it prints is handed on. */
  private static String listening(InputStream in) throws IOException {
    BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
    String line = lines.readLine();
    while (line != null && !line.startsWith(READY)) {
      if (!line.isEmpty()) {
        System.err.println(line);
      }
      line = lines.readLine();
    }
    return line == null ? null : line.substring(READY.length());
  }

  /** What this source is told by, so that a Python with another one says so. */
  private static String mark() throws IOException {
    InputStream in = ForkServer.class.getResourceAsStream(MARK);
    try {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } finally {
      in.close();
    }
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** A connection to a new worker, which knows that we are who started it. */
  SocketChannel connect() throws IOException {
    SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
    ByteBuffer shown = ByteBuffer.wrap(secret);
    while (shown.hasRemaining()) {
      channel.write(shown);
    }
    return channel;
  }

  /** End the server; workers that it forked live on. */
  void end() {
    process.destroy();
    // It removes them itself, unless it was killed.
    new File(socket).delete();
    new File(socket).getParentFile().delete();
  }

  /** Hands on what the process prints, and keeps the end of it. */
  private static final class LastWords extends Thread {
    private static final int MOST = 4000;
    private final InputStream in;
    private final StringBuilder kept = new StringBuilder();

    LastWords(InputStream in) {
      super("lancewood-worker-errors");
      this.in = in;
      setDaemon(true);
    }

    @Override
    public void run() {
      byte[] chunk = new byte[1024];
      try {
        int count = in.read(chunk);
        while (count >= 0) {
          System.err.write(chunk, 0, count);
          keep(new String(chunk, 0, count, StandardCharsets.UTF_8));
          count = in.read(chunk);
        }
      } catch (IOException closed) {
        return;
      }
    }

    private synchronized void keep(String text) {
      kept.append(text);
      if (kept.length() > MOST) {
        kept.delete(0, kept.length() - MOST);
      }
    }

    synchronized String last() {
      return kept.toString();
    }

    void finish() {
      try {
        join(1000);
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
