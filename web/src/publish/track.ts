import { Message, type IncomingRequest, RequestCode, ResetCode } from "../moqt/session.js";
import { rangeOf } from "../moqt/filter.js";
import { type Location, readParameters, Writer, writeParameters } from "../moqt/wire.js";
import { Delivery, type Stored } from "./delivery.js";

/** How many groups are kept, for those who join. */
const history = 3;

let nextAlias = 1;

/** PublishedTrack is a track that the relay can subscribe to. A lower priority goes first. */
export class PublishedTrack {
  private objects: Stored[] = [];
  private group = -1;
  private object = 0;
  private readonly deliveries = new Set<Delivery>();

  constructor(
    readonly name: string,
    /** republish makes the only object of a track again, for those who join: catalogs have it. */
    private readonly republish?: () => void,
  ) {}

  /** add publishes an object. A group that is not the current one begins, and ends the current one. */
  add(group: number, subgroup: number, priority: number, payload: Uint8Array): void {
    if (group !== this.group) {
      for (const d of this.deliveries) d.endGroup();
      this.group = group;
      this.object = 0;
      this.objects = this.objects.filter((o) => o.group > group - history);
    }
    const o = { group, object: this.object++, subgroup, priority, payload };
    this.objects.push(o);
    for (const d of this.deliveries) if (d.forward) d.send(o);
  }

  private get largest(): Location | undefined {
    return this.objects.at(-1);
  }

  /** serve answers a request for the track. */
  async serve(r: IncomingRequest): Promise<void> {
    switch (r.type) {
      case Message.Subscribe:
        return this.accept(r);
      case Message.Fetch:
        return this.fetch(r);
      case Message.TrackStatus: {
        const ok = new Writer();
        writeParameters(ok, this.largest ? { largest: this.largest } : {}, r.session.draft);
        await r.stream.send(Message.RequestOK, ok);
        return r.stream.finish();
      }
      default:
        return r.stream.refuse(RequestCode.NotSupported);
    }
  }

  private async accept(r: IncomingRequest): Promise<void> {
    const alias = nextAlias++;
    const ok = new Writer().int(alias);
    writeParameters(ok, this.largest ? { largest: this.largest } : {}, r.session.draft);
    await r.stream.send(Message.SubscribeOK, ok);
    const d = new Delivery(r.session, alias, r.parameters.forward ?? true);
    this.deliveries.add(d);
    this.republish?.();
    try {
      for (let m = await r.stream.next(); m; m = await r.stream.next()) {
        if (m.type !== Message.RequestUpdate) continue;
        m.body.int(); // the id of the update
        d.forward = readParameters(m.body, r.session.draft).forward ?? d.forward;
        await r.stream.send(Message.RequestOK, new Writer().int(0));
      }
      await r.stream.cancelled;
    } catch {
      // The relay has cancelled it.
    }
    this.deliveries.delete(d);
    d.abort(ResetCode.Cancelled);
  }

  private async fetch(r: IncomingRequest): Promise<void> {
    const { start, last: limit } = rangeOf(r.parameters.filter, this.largest ?? { group: 0, object: 0 });
    const within = (o: Location) => !before(o, start) && !(limit && before(limit, o));
    const found = this.objects.filter(within);
    const last = found.at(-1);
    if (!last) return r.stream.refuse(RequestCode.InvalidRange, "the objects are not there any more");
    const end = r.session.draft < 20 ? last.object + 1 : last.object; // included since draft 20
    const ok = new Writer().byte(0).location({ group: last.group, object: end });
    writeParameters(ok, {}, r.session.draft);
    await r.stream.send(Message.FetchOK, ok);
    const writer = (await r.session.openStream(0)).getWriter();
    await writer.write(new Writer().int(0x05).int(r.id).bytes);
    let group = -1;
    for (const o of found) {
      // Subgroup, object and priority in full; the group if it is another one (§11.4.4).
      const header = new Writer().int(0x03 | 0x04 | 0x10 | (o.group === group ? 0 : 0x08));
      if (o.group !== group) header.int(group < 0 ? o.group : o.group - group - 1);
      header.int(o.subgroup);
      header.int(o.group === group ? 1 : o.object).byte(o.priority).int(o.payload.length);
      group = o.group;
      await writer.write(header.bytes);
      await writer.write(o.payload);
    }
    await writer.close();
    await r.stream.finish();
  }
}

/** before reports whether a location comes before another one. */
function before(a: Location, b: Location): boolean {
  return a.group < b.group || (a.group === b.group && a.object < b.object);
}
