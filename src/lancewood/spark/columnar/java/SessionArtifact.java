package io.lancewood.spark;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.storage.BlockData;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManager;
import scala.Option;

/**
 * Bytes that a client of Spark Connect left with its session as a cached artifact, named by their
 * SHA-256. Only who may add artifacts to a session can leave some, only that session has them, and
 * bytes that do not have the digest by which they are asked for are refused.
 */
final class SessionArtifact {
  /** Internal to Spark, which has its artifacts there since 4.0. */
  private static final String SESSION = "org.apache.spark.sql.classic.SparkSession";

  private static final String BLOCK = "org.apache.spark.storage.CacheId";
  private static final String HASH = "SHA-256";

  private final Object session;
  private final String digest;

  /** The artifact of the session that this thread works for. */
  SessionArtifact(String digest) {
    this.digest = digest;
    try {
      Class sessions = Class.forName(SESSION, true, TableProvider.class.getClassLoader());
      session = sessions.getMethod("active", new Class[0]).invoke(null, new Object[0]);
    } catch (ReflectiveOperationException missing) {
      throw new IllegalStateException("this Spark has no artifacts of sessions", missing);
    }
  }

  /** A name for it that no artifact of another session has. */
  String key() {
    return of(session, "sessionUUID") + "/" + digest;
  }

  /** The bytes; throws IllegalStateException if they are not there, or not those. */
  byte[] read() {
    BlockId block = block();
    BlockManager blocks = blocks();
    Option found = block == null ? Option.empty() : blocks.getLocalBytes(block);
    if (found.isEmpty()) {
      throw new IllegalStateException(
          "this session of Spark Connect has no plan " + digest + " of a read: make the DataFrame"
              + " again in this session, with lancewood.spark.read");
    }
    try {
      byte[] bytes = allOf(((BlockData) found.get()).toInputStream());
      if (!digestOf(bytes).equals(digest)) {
        throw new IllegalStateException(
            "the plan " + digest + " of a read was changed on its way, and is not used: make the"
                + " DataFrame again with lancewood.spark.read");
      }
      return bytes;
    } finally {
      blocks.releaseLock(block, Option.empty());
    }
  }

  /**
   * Where the driver keeps blocks. Not every method of its environment names classes that are there,
   * so only this one is looked up.
   */
  private static BlockManager blocks() {
    Object environment = SparkContext.getOrCreate().env();
    try {
      MethodType type = MethodType.methodType(BlockManager.class);
      Object found =
          MethodHandles.publicLookup()
              .findVirtual(environment.getClass(), "blockManager", type)
              .invokeWithArguments(new Object[] {environment});
      return (BlockManager) found;
    } catch (Throwable missing) {
      throw new IllegalStateException("this Spark keeps no blocks on its driver", missing);
    }
  }

  /** Where Spark keeps it; null for nowhere. */
  private BlockId block() {
    Class[] types = {String.class};
    try {
      Object artifacts = of(session, "artifactManager");
      Method find = artifacts.getClass().getMethod("getCachedBlockId", types);
      Option found = (Option) find.invoke(artifacts, new Object[] {digest});
      return found.isEmpty() ? null : (BlockId) found.get();
    } catch (NoSuchMethodException older) {
      return blockByName();
    } catch (ReflectiveOperationException refused) {
      throw new IllegalStateException(refused);
    }
  }

  /** The same in Spark 4.0, where no two sessions share an artifact. */
  private BlockId blockByName() {
    Class[] types = {String.class, String.class};
    Object[] names = {of(session, "sessionUUID"), digest};
    try {
      Class blocks = Class.forName(BLOCK, true, BlockId.class.getClassLoader());
      return (BlockId) blocks.getConstructor(types).newInstance(names);
    } catch (ReflectiveOperationException missing) {
      throw new IllegalStateException("this Spark caches no artifacts of sessions", missing);
    }
  }

  private static Object of(Object owner, String method) {
    try {
      return owner.getClass().getMethod(method, new Class[0]).invoke(owner, new Object[0]);
    } catch (ReflectiveOperationException missing) {
      throw new IllegalStateException("this Spark has no artifacts of sessions", missing);
    }
  }

  private static byte[] allOf(InputStream in) {
    try {
      try {
        return in.readAllBytes();
      } finally {
        in.close();
      }
    } catch (IOException failed) {
      throw new IllegalStateException("a plan of a read cannot be read back", failed);
    }
  }

  private static String digestOf(byte[] bytes) {
    try {
      byte[] found = MessageDigest.getInstance(HASH).digest(bytes);
      return String.format("%064x", new Object[] {new BigInteger(1, found)});
    } catch (GeneralSecurityException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
