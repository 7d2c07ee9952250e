import { type Draft, draftOf, protocols } from "./draft.js";
import { wholeGroup } from "./filter.js";
import { StreamReader, streamError } from "./reader.js";
import {
  type Location,
  type Namespace,
  type Parameters,
  Parser,
  type Playback,
  type Properties,
  ProtocolError,
  readParameters,
  readProperties,
  writeParameters,
  Writer,
} from "./wire.js";

export const enum Message {
  RequestUpdate = 0x02,
  Subscribe = 0x03,
  SubscribeOK = 0x04,
  RequestError = 0x05,
  PublishNamespace = 0x06,
  RequestOK = 0x07,
  Namespace = 0x08,
  PublishDone = 0x0b,
  TrackStatus = 0x0d,
  NamespaceDone = 0x0e,
  Goaway = 0x10,
  Fetch = 0x16,
  FetchOK = 0x18,
  Publish = 0x1d,
  SubscribeNamespace = 0x50,
  Setup = 0x2f00,
}

export const enum RequestCode {
  NotSupported = 0x03,
  DoesNotExist = 0x10,
  InvalidRange = 0x11,
  DuplicateSubscription = 0x19, // draft-18 only
}

export const enum ResetCode {
  Cancelled = 0x01,
  TooFarBehind = 0x05,
}

const fetchStream = 0x05;
/** The setup option of a relay that takes what players report, and its value (docs/moqt.md). */
const renditionsOption = 0x511ce2;
const renditionsVersion = 2;
const standaloneFetch = 1; // until draft 19
/** What waits for a subscription whose answer has not arrived is dropped after this time, in milliseconds. */
const aliasPatience = 2000;
/** How often a refused subscription is tried again while another one to its track ends, and for how long. */
const duplicateInterval = 100;
const duplicatePatience = 5000;
/** How many streams may wait so. Those beyond are cancelled. */
export const maxWaiting = 64;
/** How long to wait for the objects of a fetch, in milliseconds. What has come until then is kept. */
const fetchPatience = 5000;
/** An object that is larger cannot be media that a page can play. */
const maxObject = 32 << 20;

export interface TrackName {
  namespace: Namespace;
  name: string;
}

/** MediaObject is an object of a track, as it was received. */
export interface MediaObject extends Location {
  subgroup: number;
  status: number;
  properties?: Properties;
  payload: Uint8Array<ArrayBuffer>;
  /** arrival is not known of objects that were fetched. */
  arrival?: Arrival;
}

/** Arrival tells when an object was complete, and how long after its first byte, in milliseconds. */
export interface Arrival {
  at: number;
  took: number;
}

/** RequestError is the relay's refusal of a request. */
export class RequestError extends Error {
  override name = "RequestError";
  constructor(
    readonly code: number,
    readonly reason: string,
  ) {
    super(reason || `refused with code ${code}`);
  }
}

/** ReceiverError says that what takes objects has failed. The relay is not to blame, whatever the cause. */
class ReceiverError extends Error {
  override name = "ReceiverError";
}

function hand(o: MediaObject, receive: (o: MediaObject) => void): void {
  try {
    receive(o);
  } catch (cause) {
    throw new ReceiverError("an object cannot be used", { cause });
  }
}

export interface SessionOptions {
  /** url of the relay, https://host:port/path. */
  url: string;
  /** hash is the SHA-256 of the relay's certificate, if no authority has signed it. */
  hash?: Uint8Array<ArrayBuffer>;
  /** token is sent with each request. */
  token?: string;
}

/** Session is a MoQT session over WebTransport. */
export class Session {
  /** closed resolves with the reason when the session is over. */
  readonly closed: Promise<string>;
  /** serve answers the relay's requests for tracks. */
  serve: ((request: IncomingRequest) => void) | undefined;
  /** ongoaway is called when the relay asks its peers to go to another relay, or, without a URL, to connect again. */
  ongoaway: ((url: string) => void) | undefined;

  private takesPlayback = false;
  private nextID = 0;
  private readonly receivers = new Map<number, Subscription>(); // by alias
  private readonly waiting = new Set<{ alias: number; wake: () => void }>(); // streams without a subscription
  private readonly fetches = new Map<number, Fetch>(); // by request id
  private end!: (reason: string) => void;

  private constructor(
    private readonly wt: WebTransport,
    private readonly token: string | undefined,
    /** draft is the version that both ends speak. */
    readonly draft: Draft,
  ) {
    this.closed = new Promise((resolve) => (this.end = resolve));
    wt.closed.then(
      (info) => this.end(info.reason || "the relay has closed the session"),
      () => this.end("the connection was lost"),
    );
  }

  static async connect(options: SessionOptions): Promise<Session> {
    const wt = new WebTransport(options.url, {
      protocols,
      ...(options.hash && { serverCertificateHashes: [{ algorithm: "sha-256", value: options.hash }] }),
    } as WebTransportOptions);
    await wt.ready;
    const session = new Session(wt, options.token, draftOf((wt as { protocol?: string }).protocol));
    await session.begin();
    return session;
  }

  close(): void {
    try {
      this.wt.close({ closeCode: 0, reason: "" });
    } catch {
      // It is closed.
    }
  }

  private async begin(): Promise<void> {
    const control = (await this.wt.createUnidirectionalStream()).getWriter();
    const options = new Writer().int(0x07).prefixed("sluice-web");
    await control.write(frame(Message.Setup, options));
    this.run(this.acceptData());
    this.run(this.acceptRequests());
    this.run(this.acceptDatagrams());
  }

  /** run ends the session when a task fails. */
  private run(task: Promise<void>): void {
    task.catch((error: unknown) => this.fail(error)); // once the session is over, that says nothing new
  }

  private fail(error: unknown): void {
    this.end(error instanceof Error ? error.message : String(error));
    if (!(error instanceof ProtocolError)) return;
    try {
      this.wt.close({ closeCode: 3, reason: error.message });
    } catch {
      // It is closed.
    }
  }

  private async acceptData(): Promise<void> {
    const streams = this.wt.incomingUnidirectionalStreams.getReader();
    for (;;) {
      const { value, done } = await streams.read();
      if (done) return;
      const r = new StreamReader(value);
      this.readData(r).catch((error: unknown) => {
        if (error instanceof ProtocolError) this.fail(error);
        else r.cancel(ResetCode.Cancelled); // if it was not reset, its receiver has failed, and reads no more of it
      });
    }
  }

  private async readData(r: StreamReader): Promise<void> {
    const type = await r.int();
    if (type === Message.Setup) return this.readControl(r);
    if (type === fetchStream) {
      const fetch = this.fetches.get(await r.int());
      if (fetch) await fetch.read(r);
      else r.cancel(ResetCode.Cancelled);
      return;
    }
    if ((type & ~0x6f) !== 0x10) return r.cancel(ResetCode.Cancelled);
    await this.readSubgroup(type, r);
  }

  private async readControl(r: StreamReader): Promise<void> {
    for (let type: number = Message.Setup; ; type = await r.int()) {
      const body = new Parser(await readBody(r));
      if (type === Message.Setup) {
        this.takesPlayback = readProperties(body.rest()).get(renditionsOption) === renditionsVersion;
      }
      if (type === Message.Goaway) this.ongoaway?.(body.string());
      if (!(await r.more())) return;
    }
  }

  private async readSubgroup(type: number, r: StreamReader): Promise<void> {
    const subscription = await this.receiver(await r.int());
    const group = await r.int();
    const mode = type & 0x06;
    let subgroup = mode === 0x04 ? await r.int() : 0;
    if (!(type & 0x20)) await r.byte(); // the publisher's priority
    if (!subscription) return r.cancel(ResetCode.Cancelled);
    let object = -1;
    for (let first = true; await r.more(); first = false) {
      const began = performance.now();
      object += (await r.int()) + 1;
      if (first && mode === 0x02) subgroup = object;
      const properties = type & 0x01 ? await readPrefixed(r) : undefined;
      const length = await r.int();
      if (length > maxObject) return r.cancel(ResetCode.Cancelled);
      const status = length === 0 ? await r.int() : 0;
      const payload = await r.bytes(length);
      if (subscription.ended) return r.cancel(ResetCode.Cancelled);
      const at = performance.now();
      subscription.deliver({
        group,
        object,
        subgroup,
        status,
        payload,
        arrival: { at, took: at - began },
        ...(properties?.length && { properties: readProperties(properties) }),
      });
    }
    if (type & 0x08) {
      subscription.deliver({ group, object: object + 1, subgroup, status: 3, payload: new Uint8Array() });
    }
  }

  private async acceptDatagrams(): Promise<void> {
    const datagrams = this.wt.datagrams.readable.getReader();
    for (;;) {
      const { value, done } = await datagrams.read();
      if (done) return;
      try {
        this.readDatagram(new Parser(value));
      } catch (error) {
        if (!(error instanceof ReceiverError)) throw error;
      }
    }
  }

  /** readDatagram reads an object (§11.3.1). One that comes before its subscription is dropped, as if it were lost. */
  private readDatagram(r: Parser): void {
    const type = r.int();
    if ((type & ~0x2f) !== 0) return;
    const subscription = this.receivers.get(r.int());
    const group = r.int();
    const object = type & 0x04 ? 0 : r.int();
    if (!(type & 0x08)) r.byte(); // the publisher's priority
    const properties = type & 0x01 ? r.prefixed() : undefined;
    const status = type & 0x20 ? r.int() : 0;
    const payload = r.rest().slice();
    subscription?.deliver({
      group,
      object,
      subgroup: 0,
      status,
      payload,
      arrival: { at: performance.now(), took: 0 },
      ...(properties && { properties: readProperties(properties) }),
    });
    if (type & 0x02) {
      subscription?.deliver({ group, object: object + 1, subgroup: 0, status: 3, payload: new Uint8Array() });
    }
  }

  /** receiver returns the subscription with an alias. Data may overtake the answer that assigns it. */
  private async receiver(alias: number): Promise<Subscription | undefined> {
    if (!this.receivers.has(alias) && this.waiting.size < maxWaiting) await this.arrival(alias);
    return this.receivers.get(alias);
  }

  /** arrival waits for the subscription with an alias, for a while. */
  private async arrival(alias: number): Promise<void> {
    let wake!: () => void;
    const arrived = new Promise<void>((resolve) => (wake = resolve));
    const waiting = { alias, wake };
    this.waiting.add(waiting);
    const timer = setTimeout(wake, aliasPatience);
    await arrived;
    clearTimeout(timer);
    this.waiting.delete(waiting);
  }

  /**
   * subscribe asks for a track. Its objects go to receive. In draft-18 a track has one subscription, so the one before
   * has to end first, and the relay has to know that.
   */
  async subscribe(
    track: TrackName,
    parameters: Parameters,
    receive: (o: MediaObject) => void,
  ): Promise<Subscription> {
    for (let waited = 0; ; waited += duplicateInterval) {
      try {
        return await this.trySubscribe(track, parameters, receive);
      } catch (error) {
        const taken = error instanceof RequestError && error.code === RequestCode.DuplicateSubscription;
        if (!taken || waited >= duplicatePatience) throw error;
        await new Promise((resolve) => setTimeout(resolve, duplicateInterval));
      }
    }
  }

  private async trySubscribe(
    track: TrackName,
    parameters: Parameters,
    receive: (o: MediaObject) => void,
  ): Promise<Subscription> {
    const id = this.takeID();
    const body = new Writer().int(id).namespace(track.namespace).prefixed(track.name);
    writeParameters(body, this.authorized(parameters), this.draft);
    const stream = await this.request(Message.Subscribe, body);
    const answer = await stream.next();
    if (answer?.type !== Message.SubscribeOK) throw unexpected(answer);
    const alias = answer.body.int();
    const ok = readParameters(answer.body, this.draft);
    const s: Subscription = new Subscription(track, stream, ok.largest, receive, () => {
      if (this.receivers.get(alias) === s) this.receivers.delete(alias); // else the alias has another one now
    });
    this.receivers.set(alias, s);
    for (const w of this.waiting) if (w.alias === alias) w.wake();
    return s;
  }

  /**
   * report tells the relay what becomes of a track here, if it wants to know and has answered the last report. It
   * returns whether it has.
   */
  async report(s: Subscription, playback: Playback): Promise<boolean> {
    if (!this.takesPlayback || s.updating || s.ended) return false;
    const body = new Writer().int(this.takeID());
    writeParameters(body, { playback }, this.draft);
    await s.update(body);
    return true;
  }

  /** fetchBefore asks for the objects of a subscription's current group that came before its start. */
  async fetchBefore(s: Subscription, receive: (o: MediaObject) => void): Promise<void> {
    if (!s.largest) return;
    const id = this.takeID();
    const body = new Writer().int(id);
    this.writeFetch(body, s.track, { group: s.largest.group, object: 0 }, s.largest);
    const fetch = new Fetch(receive);
    this.fetches.set(id, fetch);
    try {
      const stream = await this.request(Message.Fetch, body);
      const answer = await stream.next();
      if (answer?.type !== Message.FetchOK) throw unexpected(answer);
      await Promise.race([fetch.done, sleep(fetchPatience)]);
    } finally {
      this.fetches.delete(id);
    }
  }

  /** writeFetch writes what follows the ID of a FETCH for a range that includes its last object. */
  private writeFetch(w: Writer, track: TrackName, start: Location, last: Location): void {
    const name = () => w.namespace(track.namespace).prefixed(track.name);
    if (this.draft < 20) {
      w.int(standaloneFetch);
      name().location(start).location({ group: last.group, object: last.object + 1 });
      writeParameters(w, this.authorized({}), this.draft);
      return;
    }
    name();
    writeParameters(w, this.authorized({ filter: { start, last } }), this.draft);
  }

  /** subscribeNamespace tells which namespaces below a prefix have publishers, until the session is over. */
  async subscribeNamespace(prefix: Namespace, changed: (suffix: Namespace, there: boolean) => void): Promise<void> {
    const body = new Writer().int(this.takeID()).namespace(prefix);
    writeParameters(body, this.authorized({}), this.draft);
    const stream = await this.request(Message.SubscribeNamespace, body);
    const answer = await stream.next();
    if (answer?.type !== Message.RequestOK) throw unexpected(answer);
    this.run(
      (async () => {
        for (let m = await stream.next(); m; m = await stream.next()) {
          if (m.type === Message.Namespace) changed(m.body.namespace(), true);
          if (m.type === Message.NamespaceDone) changed(m.body.namespace(), false);
        }
        throw new Error("the relay tells no more what is live");
      })(),
    );
  }

  /** publishNamespace says that serve answers requests for tracks of a namespace. */
  async publishNamespace(namespace: Namespace): Promise<Announcement> {
    const body = new Writer().int(this.takeID()).namespace(namespace);
    writeParameters(body, this.authorized({}), this.draft);
    const stream = await this.request(Message.PublishNamespace, body);
    const answer = await stream.next();
    if (answer?.type !== Message.RequestOK) throw unexpected(answer);
    return { ended: endOf(stream) };
  }

  /** rtt returns the round-trip time in milliseconds, or 0 if the browser does not tell. */
  async rtt(): Promise<number> {
    const wt = this.wt as { getStats?: () => Promise<{ smoothedRtt?: number }> };
    const stats = await wt.getStats?.().catch(() => undefined);
    return stats?.smoothedRtt ?? 0;
  }

  /** openStream opens a stream for objects. Streams with a higher order go first. */
  openStream(order: number): Promise<WritableStream<Uint8Array>> {
    return this.wt.createUnidirectionalStream({ sendOrder: order } as WebTransportSendStreamOptions);
  }

  private authorized(p: Parameters): Parameters {
    return this.token ? { ...p, token: this.token } : p;
  }

  private takeID(): number {
    const id = this.nextID;
    this.nextID += 2; // odd ones are the relay's
    return id;
  }

  private async request(type: Message, body: Writer): Promise<RequestStream> {
    const stream = new RequestStream(await this.wt.createBidirectionalStream());
    await stream.send(type, body);
    return stream;
  }

  private async acceptRequests(): Promise<void> {
    const streams = this.wt.incomingBidirectionalStreams.getReader();
    for (;;) {
      const { value, done } = await streams.read();
      if (done) return;
      this.answer(new RequestStream(value)).catch((error: unknown) => {
        if (error instanceof ProtocolError) this.fail(error);
      });
    }
  }

  private async answer(stream: RequestStream): Promise<void> {
    const m = await stream.next();
    if (!m) return;
    const id = m.body.int();
    const supported = m.type === Message.Subscribe || m.type === Message.Fetch || m.type === Message.TrackStatus;
    if (!supported || !this.serve) return stream.refuse(RequestCode.NotSupported);
    const typed = m.type === Message.Fetch && this.draft < 20;
    if (typed && m.body.int() !== standaloneFetch) return stream.refuse(RequestCode.NotSupported);
    const track = { namespace: m.body.namespace(), name: m.body.string() };
    const range = typed && { start: m.body.location(), last: lastBefore(m.body.location()) };
    const parameters = readParameters(m.body, this.draft);
    if (range) parameters.filter = range;
    this.serve({ id, type: m.type, track, parameters, stream, session: this });
  }
}

/** lastBefore returns the last object of a range that ends before another one, or with a group if that has number 0. */
function lastBefore(end: Location): Location {
  return { group: end.group, object: end.object === 0 ? wholeGroup : end.object - 1 };
}

/** IncomingRequest is a request of the relay for a track. The range of a FETCH is the filter in its parameters. */
export interface IncomingRequest {
  id: number;
  type: Message;
  track: TrackName;
  parameters: Parameters;
  stream: RequestStream;
  session: Session;
}

/** Announcement is a namespace that the relay has accepted. */
export interface Announcement {
  /** ended resolves with the reason when the relay sends no more requests for it, as when the token has expired. */
  ended: Promise<string>;
}

/** endOf waits until the relay ends or resets a request that it has accepted. */
async function endOf(stream: RequestStream): Promise<string> {
  try {
    while (await stream.next());
  } catch {
    // It was reset.
  }
  return "the relay has ended the broadcast";
}

/** RequestStream is the stream of one request. */
export class RequestStream {
  private readonly writer: WritableStreamDefaultWriter<Uint8Array>;
  private readonly reader: StreamReader;
  /** cancelled resolves when the peer has stopped the stream. */
  readonly cancelled: Promise<void>;

  constructor(stream: WebTransportBidirectionalStream) {
    this.writer = stream.writable.getWriter();
    this.cancelled = this.writer.closed.then(
      () => {},
      () => {},
    );
    this.reader = new StreamReader(stream.readable);
  }

  send(type: Message, body: Writer): Promise<void> {
    return this.writer.write(frame(type, body));
  }

  /** next returns the next message, or undefined at the end of the stream. */
  async next(): Promise<{ type: Message; body: Parser } | undefined> {
    if (!(await this.reader.more())) return undefined;
    const type = (await this.reader.int()) as Message;
    return { type, body: new Parser(await readBody(this.reader)) };
  }

  async refuse(code: RequestCode, reason = ""): Promise<void> {
    await this.send(Message.RequestError, new Writer().int(code).int(0).prefixed(reason));
    await this.finish();
  }

  finish(): Promise<void> {
    return this.writer.close();
  }

  cancel(): void {
    this.reader.cancel(ResetCode.Cancelled);
    this.writer.abort(streamError(ResetCode.Cancelled)).catch(() => {});
  }
}

/** Subscription is a subscription to a track. */
export class Subscription {
  /** done resolves with the reason when there will be no more objects. */
  readonly done: Promise<string>;
  ended = false;
  /** updating is: the relay has not answered an update. */
  updating = false;

  constructor(
    readonly track: TrackName,
    private readonly stream: RequestStream,
    /** largest is the largest object of the track when the subscription began. */
    readonly largest: Location | undefined,
    private readonly receive: (o: MediaObject) => void,
    private readonly forget: () => void,
  ) {
    this.done = this.watch();
  }

  deliver(o: MediaObject): void {
    if (!this.ended) hand(o, this.receive);
  }

  update(body: Writer): Promise<void> {
    this.updating = true;
    return this.stream.send(Message.RequestUpdate, body);
  }

  private async watch(): Promise<string> {
    try {
      for (let m = await this.stream.next(); m; m = await this.stream.next()) {
        if (m.type === Message.RequestOK) this.updating = false;
        if (m.type !== Message.PublishDone) continue;
        const code = m.body.int();
        m.body.int(); // number of streams
        return m.body.string() || (code === 2 ? "the track has ended" : `ended with code ${code}`);
      }
      return "the track has ended";
    } catch {
      return "the subscription was cancelled";
    }
  }

  /** cancel ends the subscription. */
  cancel(): void {
    if (this.ended) return;
    this.ended = true;
    this.stream.cancel();
    setTimeout(this.forget, aliasPatience); // until then streams of it are known, and cancelled
  }
}

/** Fetch reads the answer to a FETCH (§11.4.4). */
class Fetch {
  readonly done: Promise<void>;
  private resolve!: () => void;

  constructor(private readonly receive: (o: MediaObject) => void) {
    this.done = new Promise((resolve) => (this.resolve = resolve));
  }

  async read(r: StreamReader): Promise<void> {
    let group = 0;
    let object = -1;
    let subgroup = 0;
    let first = true;
    try {
      while (await r.more()) {
        const flags = await r.int();
        if (flags > 0x7f) {
          [group, object] = [await r.int(), await r.int()]; // a range without objects ends here
          first = false;
          continue;
        }
        const groupGiven = (flags & 0x08) !== 0;
        if (groupGiven) group = first ? await r.int() : group + 1 + (await r.int());
        const mode = flags & 0x03;
        if ((flags & 0x40) === 0) {
          if (mode === 3) subgroup = await r.int();
          else if (mode === 2) subgroup++;
          else if (mode === 0) subgroup = 0;
        }
        if (flags & 0x04) {
          const delta = await r.int();
          object = first || groupGiven ? delta : object + delta;
        } else object++;
        if (flags & 0x10) await r.byte();
        const properties = flags & 0x20 ? await readPrefixed(r) : undefined;
        const length = await r.int();
        if (length > maxObject) return r.cancel(ResetCode.Cancelled);
        first = false;
        const o: MediaObject = {
          group,
          object,
          subgroup,
          status: 0,
          payload: await r.bytes(length),
          ...(properties && { properties: readProperties(properties) }),
        };
        hand(o, this.receive);
      }
    } finally {
      this.resolve();
    }
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function frame(type: Message, body: Writer): Uint8Array {
  const payload = body.bytes;
  if (payload.length > 0xffff) throw new RangeError("a message is longer than 65,535 bytes");
  return new Writer().int(type).byte(payload.length >> 8).byte(payload.length).raw(payload).bytes;
}

async function readBody(r: StreamReader): Promise<Uint8Array> {
  const length = await r.bytes(2);
  return r.bytes((length[0]! << 8) | length[1]!);
}

async function readPrefixed(r: StreamReader): Promise<Uint8Array> {
  const length = await r.int();
  if (length > 1 << 18) throw new ProtocolError("the properties of an object are too long");
  return r.bytes(length);
}

function unexpected(answer: { type: Message; body: Parser } | undefined): Error {
  if (answer?.type !== Message.RequestError) return new ProtocolError("the answer to a request has the wrong type");
  const code = answer.body.int();
  answer.body.int(); // when to try again
  return new RequestError(code, answer.body.string());
}
