#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# java: the virtual machine reports on itself; where a compiler is there as well,
# 100 threads and off-heap buffers.
# Needs: java
# Package: default-jre-headless
# Allocs: 2000
java=(java -Xmx128m -XX:-UsePerfData -XX:TieredStopAtLevel=1)
cat >Main.java <<'EOS'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;

public class Main {
    public static void main(String[] a) throws Exception {
        AtomicLong sum = new AtomicLong();
        List<Thread> all = new ArrayList<>();
        for (int t = 0; t < 100; t++) {
            final int n = t;
            Thread th = new Thread(() -> {
                for (int i = 0; i < 50; i++) sum.addAndGet(ByteBuffer.allocateDirect(4096 + n + i).capacity());
            });
            all.add(th);
            th.start();
        }
        for (Thread th : all) th.join();
        System.out.println(sum.get());
        System.exit(9);
    }
}
EOS
if javac -d . Main.java 2>/dev/null; then
    "$UNDER" "${java[@]}" -cp . Main
    rc=$?
    rm -f Main.class
    exit $rc
fi
"$UNDER" "${java[@]}" -XX:+PrintFlagsFinal -version 2>&1 | grep -cE 'bool +Use'
"$UNDER" "${java[@]}" NoClassOfThatName 2>&1 | sed 1q
exit "${PIPESTATUS[0]}"
