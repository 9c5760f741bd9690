package io.lancewood.spark;

import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A plan that travelled where others may look, such as in the event log of a server; {@code
 * over_connect.py} closes it. Its bytes are mixed with those of a keyed hash of a running number.
 */
final class Sealed {
  private static final String HASH = "HmacSHA256";
  private static final int NONCE = 16;
  private static final int BLOCK = 32;

  private Sealed() {}

  static byte[] open(String text, String secret) {
    byte[] sealed = Base64.getDecoder().decode(text);
    byte[] plain = Arrays.copyOfRange(sealed, NONCE, sealed.length);
    try {
      Mac hash = Mac.getInstance(HASH);
      hash.init(new SecretKeySpec(Base64.getDecoder().decode(secret), HASH));
      byte[] mixed = new byte[BLOCK];
      for (int at = 0; at < plain.length; at++) {
        if (at % BLOCK == 0) {
          hash.update(sealed, 0, NONCE);
          mixed = hash.doFinal(numbered(at / BLOCK));
        }
        plain[at] = (byte) (plain[at] ^ mixed[at % BLOCK]);
      }
    } catch (GeneralSecurityException missing) {
      throw new IllegalStateException(missing);
    }
    return plain;
  }

  private static byte[] numbered(int block) {
    return new byte[] {
      (byte) (block >>> 24), (byte) (block >>> 16), (byte) (block >>> 8), (byte) block
    };
  }
}
