package io.lancewood.spark;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;

/**
 * The Python workers of this Java that run one command: as many as tasks that read at once.
 *
 * <p>Idle ones wait for the next task and end after a minute, or the seconds that a property says;
 * without workers the server ends after five times as long. A task that was killed while it waits
 * for its worker is freed by letting go of the worker.
 */
final class WorkerPool {
  private static final String IDLE = "lancewood.columnar.idle";
  private static final int SERVER = 5;
  private static final long PATIENCE = 2_000_000_000L;
  private static final long TICK = 500;
  private static final Map POOLS = new HashMap();

  private final PythonCommand command;
  private final ArrayDeque idle = new ArrayDeque();
  private final Map killedSince = new HashMap();
  private final Set busy = new HashSet();
  private final Object starting = new Object();
  private ForkServer server;
  private volatile long usedLast = System.nanoTime();

  private WorkerPool(PythonCommand command) {
    this.command = command;
  }

  /** The pool of a command. */
  static WorkerPool of(PythonCommand command) {
    synchronized (POOLS) {
      if (POOLS.isEmpty()) {
        new Caretaker().start();
      }
      WorkerPool found = (WorkerPool) POOLS.get(command);
      if (found == null) {
        found = new WorkerPool(command);
        POOLS.put(command, found);
      }
      found.usedLast = System.nanoTime();
      return found;
    }
  }

  /** Start the server, so that the first task need not wait for it. */
  void warm() throws IOException {
    server();
  }

  /** A worker for this thread's task, which was idle or is new. */
  Worker take() throws IOException {
    Worker found = takeIdle();
    while (found != null && !found.isAlive()) {
      found.end();
      found = takeIdle();
    }
    return take(found == null ? fresh() : found);
  }

  /** A worker that nobody has used. */
  Worker takeNew() throws IOException {
    return take(fresh());
  }

  /** Give a worker back, which waits for its next request. */
  synchronized void give(Worker worker) {
    forget(worker);
    worker.isUsed = true;
    worker.idleSince = System.nanoTime();
    idle.addFirst(worker);
  }

  /** Let go of a worker that may still be at work. */
  synchronized void drop(Worker worker) {
    forget(worker);
    worker.end();
  }

  private synchronized Worker take(Worker worker) {
    worker.task = TaskContext.get();
    busy.add(worker);
    return worker;
  }

  private void forget(Worker worker) {
    busy.remove(worker);
    killedSince.remove(worker);
    worker.task = null;
    usedLast = System.nanoTime();
  }

  private synchronized Worker takeIdle() {
    return (Worker) idle.pollFirst();
  }

  private Worker fresh() throws IOException {
    try {
      return new Worker(server().connect());
    } catch (IOException refused) {
      // The server may have died between two tasks.
      return new Worker(server().connect());
    }
  }

  /** The server. Who asks while it starts waits for that; who gives a worker back does not. */
  private ForkServer server() throws IOException {
    synchronized (starting) {
      ForkServer found = running();
      if (found == null) {
        found = new ForkServer(command);
        synchronized (this) {
          server = found;
        }
      }
      return found;
    }
  }

  private synchronized ForkServer running() {
    usedLast = System.nanoTime();
    if (server != null && !server.isAlive()) {
      server.end();
      server = null;
    }
    return server;
  }

  /** Whether the pool has been empty for so long that nobody will miss it. */
  private synchronized boolean care(long now) {
    long idleTime = TimeUnit.SECONDS.toNanos(Long.getLong(IDLE, 60L).longValue());
    while (!idle.isEmpty() && now - ((Worker) idle.peekLast()).idleSince > idleTime) {
      ((Worker) idle.pollLast()).end();
    }
    boolean isUnused = idle.isEmpty() && busy.isEmpty() && now - usedLast > idleTime * SERVER;
    if (server != null && isUnused) {
      server.end();
      server = null;
    }
    for (Iterator each = busy.iterator(); each.hasNext(); ) {
      Worker worker = (Worker) each.next();
      if (worker.task != null && worker.task.isInterrupted()) {
        Long since = (Long) killedSince.get(worker);
        if (since == null) {
          killedSince.put(worker, Long.valueOf(now));
        } else if (now - since.longValue() > PATIENCE) {
          worker.end();
        }
      }
    }
    return isUnused;
  }

  /** Looks after all pools, as long as there are any. */
  private static final class Caretaker extends Thread {
    Caretaker() {
      super("lancewood-workers");
      setDaemon(true);
    }

    @Override
    public void run() {
      while (true) {
        try {
          Thread.sleep(TICK);
        } catch (InterruptedException stopped) {
          return;
        }
        synchronized (POOLS) {
          for (Iterator each = POOLS.values().iterator(); each.hasNext(); ) {
            if (((WorkerPool) each.next()).care(System.nanoTime())) {
              each.remove();
            }
          }
          if (POOLS.isEmpty()) {
            return;
          }
        }
      }
    }
  }
}
