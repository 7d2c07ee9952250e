import { streamError } from "../moqt/reader.js";
import { ResetCode, type Session } from "../moqt/session.js";
import { type Location, Writer } from "../moqt/wire.js";

/** How many bytes may wait for the network: some seconds of video. */
export const maxUnsent = 4 << 20;

/** Stored is an object of a track. */
export interface Stored extends Location {
  subgroup: number;
  priority: number;
  payload: Uint8Array;
}

/** Delivery sends the objects of a track to the relay, for one of its subscriptions. */
export class Delivery {
  private readonly current = new Map<number, Outgoing>(); // by subgroup
  private readonly ended = new Set<Outgoing>(); // streams of groups that have ended, as long as bytes of them wait
  private skips = false; // the rest of the current group is left out

  constructor(
    private readonly session: Session,
    private readonly alias: number,
    public forward: boolean,
  ) {}

  /** send sends an object. If too much waits, the streams of older groups are given up, then the current group's: what
   * follows begins with the next group, which begins with a key frame. */
  send(o: Stored): void {
    if (this.unsent > maxUnsent) this.giveUp(this.ended);
    if (this.unsent > maxUnsent) {
      this.giveUp(this.current);
      this.skips = true;
    }
    if (this.skips) return;
    let stream = this.current.get(o.subgroup);
    if (!stream) {
      stream = new Outgoing(this.session, this.alias, o);
      this.current.set(o.subgroup, stream);
    }
    stream.send(o);
  }

  endGroup(): void {
    for (const stream of this.current.values()) {
      this.ended.add(stream);
      void stream.close().finally(() => this.ended.delete(stream));
    }
    this.current.clear();
    this.skips = false;
  }

  abort(code: ResetCode): void {
    for (const stream of [...this.ended, ...this.current.values()]) stream.abort(code);
  }

  private get unsent(): number {
    return [...this.ended, ...this.current.values()].reduce((sum, stream) => sum + stream.unsent, 0);
  }

  private giveUp(streams: Set<Outgoing> | Map<number, Outgoing>): void {
    for (const stream of streams.values()) stream.abort(ResetCode.TooFarBehind);
    streams.clear();
  }
}

/** Outgoing is the stream of a subgroup. If the relay stops it, what follows in the subgroup is dropped. */
class Outgoing {
  /** unsent is how many bytes wait for the network. */
  unsent = 0;
  private previous = -1; // the latest object
  private queue: Uint8Array[] = []; // until the stream is open
  private aborted = false;
  private readonly writer: Promise<WritableStreamDefaultWriter<Uint8Array>>;

  constructor(session: Session, alias: number, first: Stored) {
    const header = new Writer().int(0x14).int(alias).int(first.group).int(first.subgroup).byte(first.priority);
    this.writer = session.openStream(255 - first.priority).then((stream) => stream.getWriter());
    this.write(header.bytes);
  }

  send(o: Stored): void {
    const delta = this.previous < 0 ? o.object : o.object - this.previous - 1;
    this.previous = o.object;
    const header = new Writer().int(delta).int(o.payload.length).bytes;
    const message = new Uint8Array(header.length + o.payload.length);
    message.set(header);
    message.set(o.payload, header.length);
    this.write(message);
  }

  /** close resolves when all is sent, or will never be. */
  close(): Promise<void> {
    return this.writer.then((w) => (this.aborted ? undefined : w.close())).catch(() => {});
  }

  abort(code: ResetCode): void {
    this.aborted = true;
    this.queue = [];
    void this.writer.then((w) => w.abort(streamError(code))).catch(() => {});
  }

  private write(bytes: Uint8Array): void {
    this.unsent += bytes.length;
    this.queue.push(bytes);
    this.writeNext().catch(() => {}); // the relay has stopped the stream, or the session is over
  }

  private async writeNext(): Promise<void> {
    const writer = await this.writer;
    const bytes = this.queue.shift();
    if (!bytes) return; // it was given up
    await writer.write(bytes).finally(() => (this.unsent -= bytes.length));
  }
}
