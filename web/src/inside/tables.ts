// The tables below the graphs.

import { make } from "../ui/dom.js";
import { largest, secondsBetween, shareOf, since } from "./rates.js";
import type { Detail, Guest, Snapshot, Subscriber, Track } from "./snapshot.js";
import { bits, bytes, percent, renditionText, time } from "./text.js";

type Cell = string | number | Node;

/** fill gives a table columns and rows, the end of which may be left out. What has the focus keeps it. */
export function fill(table: HTMLTableElement, columns: string[], rows: Cell[][]): void {
  const focused = document.activeElement?.id;
  const cells = (row: Cell[], tag: "th" | "td") =>
    make("tr", {}, ...row.map((c) => make(tag, tag === "th" ? { scope: "col" } : {}, typeof c === "number" ? `${c}` : c)));
  table.replaceChildren(
    make("thead", {}, cells(columns, "th")),
    make("tbody", {}, ...rows.map((row) => cells([...row, ...Array(Math.max(0, columns.length - row.length)).fill("")], "td"))),
  );
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
}

/** fillTracks shows the tracks; choose is called with the one that a user chooses. */
export function fillTracks(
  table: HTMLTableElement, before: Snapshot | undefined, now: Snapshot, chosen: number | undefined,
  choose: (track: Track) => void,
): void {
  const seconds = before ? secondsBetween(before, now) : 1;
  const earlier = new Map(before?.tracks.map((t) => [t.id, t.bytes]));
  const rows: Cell[][] = now.tracks.map((t) => {
    const button = make("button", { id: `track-${t.id}`, type: "button", "aria-pressed": `${t.id === chosen}` }, nameOf(t));
    button.addEventListener("click", () => choose(t));
    const rate = (8 * since(t.bytes, earlier.get(t.id))) / seconds;
    return [button, t.publishers, t.subscribers, t.on_fast_path, bits(rate)];
  });
  if (now.more.tracks > 0) {
    const rest = `${now.more.tracks} more`;
    rows.push([rest, "", now.more.subscribers, now.more.on_fast_path]);
  }
  if (rows.length === 0) rows.push(["There are none."]);
  fill(table, ["track", "publishers", "subscribers", "by the kernel", "from publishers"], rows);
}

/** nameOf writes the name of a track. */
export const nameOf = (t: Track): string => (t.scope ? `${t.name} (${t.scope})` : t.name);

const subscriberColumns = [
  "peer", "RTT", "smallest", "window", "in flight", "to it", "by the kernel", "lost", "mostly declined because of",
];

/** fillSubscribers shows the subscribers of a track, and which rendition each gets if the relay chooses. */
export function fillSubscribers(table: HTMLTableElement, before: Detail | undefined, now: Detail, seconds: number): void {
  const earlier = new Map(before?.subscribers.map((s) => [s.session, s]));
  const chosen = now.subscribers.some((s) => s.rendition);
  const columns = chosen ? [...subscriberColumns, "rendition"] : subscriberColumns;
  const rows: Cell[][] = now.subscribers.map((s) => {
    const row = subscriberRow(s, earlier.get(s.session), seconds);
    return chosen ? [...row, renditionText(s.rendition)] : row;
  });
  if (now.more > 0) rows.push([`${now.more} more`]);
  if (rows.length === 0) rows.push([now.gone ? "The track has gone." : "There are none."]);
  fill(table, columns, rows);
}

function subscriberRow(s: Subscriber, before: Subscriber | undefined, seconds: number): Cell[] {
  const kernel = since(s.sent.kernel_packets, before?.sent.kernel_packets);
  const process = since(s.sent.process_packets, before?.sent.process_packets);
  return [
    `${s.remote} ${s.transport}`, time(s.srtt_ns), time(s.min_rtt_ns), bytes(s.window_bytes), bytes(s.in_flight_bytes),
    s.forward ? bits((8 * since(s.sent.bytes, before?.sent.bytes)) / seconds) : "paused",
    s.on_fast_path ? percent(shareOf(kernel, process)) : "no",
    s.sent.lost_packets, largest(s.declined ?? {}, 1)[0]?.[0] ?? "–",
  ];
}

/** fillGuests shows the clients of other protocols. It returns whether there are any. */
export function fillGuests(table: HTMLTableElement, before: Snapshot | undefined, now: Snapshot): boolean {
  const seconds = before ? secondsBetween(before, now) : 1;
  const earlier = new Map(before?.guests?.map((g) => [keyOf(g), g]));
  const rows: Cell[][] = (now.guests ?? []).map((g) => guestRow(g, earlier.get(keyOf(g)), seconds));
  if (now.more_guests) rows.push([`${now.more_guests} more`]);
  fill(table, ["client", "by", "does", "broadcast", "from it", "to it", "by the kernel", "dropped"], rows);
  return rows.length > 0;
}

const keyOf = (g: Guest): string => `${g.remote} ${g.publishes} ${g.namespace}`;

/** guestRow writes what a guest has done since an earlier snapshot. */
export function guestRow(g: Guest, before: Guest | undefined, seconds: number): (string | number)[] {
  const kernel = since(g.kernel_packets, before?.kernel_packets);
  const process = since(g.process_packets, before?.process_packets);
  return [
    g.remote, g.carrier ? `${g.protocol}, ${g.carrier}` : g.protocol, g.publishes ? "publishes" : "plays", g.namespace,
    g.publishes ? bits((8 * since(g.received_bytes, before?.received_bytes)) / seconds) : "",
    g.publishes ? "" : bits((8 * since(g.sent_bytes, before?.sent_bytes)) / seconds),
    g.publishes ? "" : percent(shareOf(kernel, process)), g.dropped,
  ];
}

/** fillRelays shows upstream relays, and who feeds whom in the cluster. It returns whether there are any. */
export function fillRelays(table: HTMLTableElement, now: Snapshot): boolean {
  const rows: Cell[][] = [];
  for (const u of now.upstreams ?? []) rows.push([u.url, "this relay", u.connected ? "connected" : u.error ?? "away"]);
  for (const node of now.cluster?.nodes ?? []) {
    const name = node.region ? `${node.id}, ${node.region}` : node.id;
    const to = node.id === now.cluster?.node ? `${name} (this one)` : name;
    const load = `${(100 * node.load).toFixed(0)} %`;
    for (const f of node.feeds ?? []) rows.push([f.from, to, `${f.tracks} tracks`, time(f.rtt_ns), load]);
    if (!node.feeds?.length) rows.push(["–", to, "", "", load]);
  }
  if (now.cluster?.more_nodes) rows.push([`${now.cluster.more_nodes} more nodes`]);
  fill(table, ["from", "to", "state", "RTT", "load"], rows);
  return rows.length > 0;
}
