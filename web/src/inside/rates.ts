// From counters to what happens now.

import type { Snapshot } from "./snapshot.js";

/** Rates is what happened between two snapshots, each second. */
export interface Rates {
  inBits: number;
  outBits: number;
  share: number | null; // of the packets that the kernel has sent, in per cent; null if none was sent
  declined: Record<string, number>; // copies, by reason
}

/** since returns by how much a counter has grown; 0 if it began anew, in a new process. */
export const since = (now: number, before: number | undefined): number =>
  before === undefined || now < before ? 0 : now - before;

/** shareOf returns the kernel's share of packets, in per cent, or null if there were none. */
export function shareOf(kernel: number, process: number): number | null {
  return kernel + process > 0 ? (100 * kernel) / (kernel + process) : null;
}

/** secondsBetween returns the seconds between two snapshots. */
export function secondsBetween(before: { time: string }, now: { time: string }): number {
  return Math.max((Date.parse(now.time) - Date.parse(before.time)) / 1000, 0.001);
}

/** ratesOf compares two snapshots. */
export function ratesOf(before: Snapshot, now: Snapshot): Rates {
  const seconds = secondsBetween(before, now);
  const declined: Record<string, number> = {};
  for (const [reason, n] of Object.entries(now.fast_path ?? {})) {
    const grown = since(n, before.fast_path?.[reason]);
    if (reason.startsWith("copy_") && reason !== "copy_sent" && grown > 0) {
      declined[reason.slice("copy_".length)] = grown / seconds;
    }
  }
  return {
    inBits: (8 * since(now.received_bytes, before.received_bytes)) / seconds,
    outBits: (8 * since(now.sent.bytes, before.sent.bytes)) / seconds,
    share: shareOf(
      since(now.sent.kernel_packets, before.sent.kernel_packets),
      since(now.sent.process_packets, before.sent.process_packets),
    ),
    declined,
  };
}

/** grown returns what a histogram has counted since another one. */
export const grown = (before: number[], now: number[]): number[] => now.map((n, i) => since(n, before[i]));

/** quantile returns the nanoseconds below which that part of the delays lies: the end of a bin. Null: there are none. */
export function quantile(starts: number[], bins: number[], part: number): number | null {
  let left = bins.reduce((sum, n) => sum + n, 0) * part;
  if (left === 0) return null;
  const at = bins.findIndex((n) => (left -= n) <= 0);
  return starts[Math.min(at + 1, starts.length - 1)] ?? null;
}

/** smallest returns the smallest value, or null if there are none. */
export const smallest = (values: number[]): number | null => (values.length > 0 ? Math.min(...values) : null);

/** largest returns the entries with the largest values. */
export function largest(values: Record<string, number>, n: number): [string, number][] {
  return Object.entries(values).sort((a, b) => b[1] - a[1]).slice(0, n);
}
