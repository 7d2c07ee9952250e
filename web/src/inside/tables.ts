// The tables below the graphs.

import { make } from "../ui/dom.js";
import { largest, secondsBetween, shareOf, since } from "./rates.js";
import type { Detail, Guest, Snapshot, Subscriber, Track } from "./snapshot.js";
import { bits, bytes, percent, renditionText, time } from "./text.js";

type Cell = string | number | Node;

/** Row has the cells of a row, by the headings of their columns. */
type Row<Heading extends string> = Record<Heading, Cell>;

/** fill gives a table columns and rows. A cell that a row lacks is empty. What has the focus keeps it. */
function fill<Heading extends string>(
  table: HTMLTableElement, columns: readonly Heading[], rows: Partial<Row<Heading>>[],
): void {
  const focused = document.activeElement?.id;
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...columns.map((heading) => make("th", { scope: "col" }, heading)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...columns.map((heading) => {
      const cell = row[heading] ?? "";
      return make("td", {}, typeof cell === "number" ? `${cell}` : cell);
    })))),
  );
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
}

const trackColumns = ["track", "publishers", "subscribers", "by the kernel", "from publishers"] as const;
type TrackRow = Row<(typeof trackColumns)[number]>;

/** fillTracks shows the tracks; choose is called with the one that a user chooses. */
export function fillTracks(
  table: HTMLTableElement, before: Snapshot | undefined, now: Snapshot, chosen: number | undefined,
  choose: (track: Track) => void,
): void {
  const seconds = before ? secondsBetween(before, now) : 1;
  const earlier = new Map(before?.tracks.map((t) => [t.id, t.bytes]));
  const rows: Partial<TrackRow>[] = now.tracks.map((t): TrackRow => {
    const button = make("button", { id: `track-${t.id}`, type: "button", "aria-pressed": `${t.id === chosen}` }, nameOf(t));
    button.addEventListener("click", () => choose(t));
    const rate = (8 * since(t.bytes, earlier.get(t.id))) / seconds;
    return {
      track: button, publishers: t.publishers, subscribers: t.subscribers, "by the kernel": t.on_fast_path,
      "from publishers": bits(rate),
    };
  });
  if (now.more.tracks > 0) {
    const { tracks, subscribers, on_fast_path } = now.more;
    rows.push({ track: `${tracks} more`, subscribers, "by the kernel": on_fast_path });
  }
  if (rows.length === 0) rows.push({ track: "There are none." });
  fill(table, trackColumns, rows);
}

/** nameOf writes the name of a track. */
export const nameOf = (t: Track): string => (t.scope ? `${t.name} (${t.scope})` : t.name);

const subscriberColumns = [
  "peer", "RTT", "smallest", "window", "in flight", "to it", "by the kernel", "lost", "mostly declined because of",
  "rendition", // if the relay chooses any
] as const;
type SubscriberRow = Row<(typeof subscriberColumns)[number]>;

/** fillSubscribers shows the subscribers of a track, and which rendition each gets if the relay chooses. */
export function fillSubscribers(table: HTMLTableElement, before: Detail | undefined, now: Detail, seconds: number): void {
  const earlier = new Map(before?.subscribers.map((s) => [s.session, s]));
  const chosen = now.subscribers.some((s) => s.rendition);
  const columns = subscriberColumns.filter((heading) => heading !== "rendition" || chosen);
  const rows: Partial<SubscriberRow>[] = now.subscribers.map((s) => subscriberRow(s, earlier.get(s.session), seconds));
  if (now.more > 0) rows.push({ peer: `${now.more} more` });
  if (rows.length === 0) rows.push({ peer: now.gone ? "The track has gone." : "There are none." });
  fill(table, columns, rows);
}

function subscriberRow(s: Subscriber, before: Subscriber | undefined, seconds: number): SubscriberRow {
  const kernel = since(s.sent.kernel_packets, before?.sent.kernel_packets);
  const process = since(s.sent.process_packets, before?.sent.process_packets);
  return {
    peer: `${s.remote} ${s.transport}`,
    RTT: time(s.srtt_ns),
    smallest: time(s.min_rtt_ns),
    window: bytes(s.window_bytes),
    "in flight": bytes(s.in_flight_bytes),
    "to it": s.forward ? bits((8 * since(s.sent.bytes, before?.sent.bytes)) / seconds) : "paused",
    "by the kernel": s.on_fast_path ? percent(shareOf(kernel, process)) : "no",
    lost: s.sent.lost_packets,
    "mostly declined because of": largest(s.declined ?? {}, 1)[0]?.[0] ?? "–",
    rendition: renditionText(s.rendition),
  };
}

const guestColumns = ["client", "by", "does", "broadcast", "from it", "to it", "by the kernel", "dropped"] as const;
type GuestRow = Row<(typeof guestColumns)[number]>;

/** fillGuests shows the clients of other protocols. It returns whether there are any. */
export function fillGuests(table: HTMLTableElement, before: Snapshot | undefined, now: Snapshot): boolean {
  const seconds = before ? secondsBetween(before, now) : 1;
  const earlier = new Map(before?.guests?.map((g) => [keyOf(g), g]));
  const rows: Partial<GuestRow>[] = (now.guests ?? []).map((g) => guestRow(g, earlier.get(keyOf(g)), seconds));
  if (now.more_guests) rows.push({ client: `${now.more_guests} more` });
  fill(table, guestColumns, rows);
  return rows.length > 0;
}

const keyOf = (g: Guest): string => `${g.remote} ${g.publishes} ${g.namespace}`;

/** guestRow writes what a guest has done since an earlier snapshot. */
export function guestRow(g: Guest, before: Guest | undefined, seconds: number): GuestRow {
  const kernel = since(g.kernel_packets, before?.kernel_packets);
  const process = since(g.process_packets, before?.process_packets);
  return {
    client: g.remote,
    by: g.carrier ? `${g.protocol}, ${g.carrier}` : g.protocol,
    does: g.publishes ? "publishes" : "plays",
    broadcast: g.namespace,
    "from it": g.publishes ? bits((8 * since(g.received_bytes, before?.received_bytes)) / seconds) : "",
    "to it": g.publishes ? "" : bits((8 * since(g.sent_bytes, before?.sent_bytes)) / seconds),
    "by the kernel": g.publishes ? "" : percent(shareOf(kernel, process)),
    dropped: g.dropped,
  };
}

const relayColumns = ["from", "to", "state", "RTT", "load"] as const;
type RelayRow = Row<(typeof relayColumns)[number]>;

/** fillRelays shows the other relays. It returns whether there are any. */
export function fillRelays(table: HTMLTableElement, now: Snapshot): boolean {
  const rows = relayRows(now);
  fill(table, relayColumns, rows);
  return rows.length > 0;
}

/** relayRows writes upstream relays, and who feeds whom in the cluster. */
export function relayRows(now: Snapshot): Partial<RelayRow>[] {
  const rows: Partial<RelayRow>[] = [];
  const add = (row: RelayRow) => rows.push(row);
  for (const u of now.upstreams ?? []) {
    add({ from: u.url, to: "this relay", state: u.connected ? "connected" : u.error ?? "away", RTT: "", load: "" });
  }
  for (const node of now.cluster?.nodes ?? []) {
    const name = node.region ? `${node.id}, ${node.region}` : node.id;
    const to = node.id === now.cluster?.node ? `${name} (this one)` : name;
    const load = `${(100 * node.load).toFixed(0)} %`;
    for (const f of node.feeds ?? []) {
      add({ from: f.from, to, state: `${f.tracks} ${f.tracks === 1 ? "track" : "tracks"}`, RTT: time(f.rtt_ns), load });
    }
    if (!node.feeds?.length) add({ from: "–", to, state: "", RTT: "", load });
  }
  if (now.cluster?.more_nodes) rows.push({ from: `${now.cluster.more_nodes} more nodes` });
  return rows;
}
