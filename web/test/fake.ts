// What tests put in the place of a browser's WebTransport.

import { Session } from "../src/moqt/session.js";

/** FakeTransport is a WebTransport session whose peer is the test. */
export class FakeTransport {
  static latest: FakeTransport;
  static protocol = "";
  readonly protocol = FakeTransport.protocol;
  readonly ready = Promise.resolve();
  readonly closed: Promise<{ reason: string }>;
  readonly incomingUnidirectionalStreams: ReadableStream<ReadableStream<Uint8Array>>;
  readonly incomingBidirectionalStreams: ReadableStream<unknown>;
  readonly datagrams: { readable: ReadableStream<Uint8Array> };
  /** requests are the messages with which the page has opened its request streams. */
  readonly requests: Uint8Array[] = [];
  /** answers are the relay's ends of these streams. */
  readonly answers: ReadableStreamDefaultController<Uint8Array>[] = [];
  /** answer returns the answer to request n. */
  answer = (_n: number): Uint8Array => new Uint8Array();
  private streams!: ReadableStreamDefaultController<ReadableStream<Uint8Array>>;
  private asked!: ReadableStreamDefaultController<unknown>;
  private arriving!: ReadableStreamDefaultController<Uint8Array>;
  private end!: (info: { reason: string }) => void;

  constructor() {
    FakeTransport.latest = this;
    this.closed = new Promise((resolve) => (this.end = resolve));
    this.datagrams = { readable: new ReadableStream({ start: (c) => void (this.arriving = c) }) };
    this.incomingUnidirectionalStreams = new ReadableStream({ start: (c) => void (this.streams = c) });
    this.incomingBidirectionalStreams = new ReadableStream({ start: (c) => void (this.asked = c) });
  }

  /** open opens a stream to the page that begins with these bytes. It returns the reasons why the page cancels it. */
  open(...bytes: number[]): unknown[] {
    const cancelled: unknown[] = [];
    this.streams.enqueue(
      new ReadableStream({
        start: (c) => c.enqueue(new Uint8Array(bytes)),
        cancel: (reason) => void cancelled.push(reason),
      }),
    );
    return cancelled;
  }

  /** datagram sends a datagram to the page. */
  datagram(...bytes: number[]): void {
    this.arriving.enqueue(new Uint8Array(bytes));
  }

  /** ask opens a request stream to the page with a message. */
  ask(message: Uint8Array): void {
    const readable = new ReadableStream({ start: (c) => c.enqueue(message) });
    this.asked.enqueue({ readable, writable: new WritableStream() });
  }

  async createUnidirectionalStream(): Promise<WritableStream<Uint8Array>> {
    return new WritableStream();
  }

  async createBidirectionalStream() {
    const n = this.requests.length;
    let answer!: ReadableStreamDefaultController<Uint8Array>;
    const readable = new ReadableStream<Uint8Array>({ start: (c) => void (answer = c) });
    this.answers.push(answer);
    const writable = new WritableStream<Uint8Array>({
      write: (message) => {
        this.requests.push(message);
        const bytes = this.answer(n);
        if (bytes.length > 0) answer.enqueue(bytes);
      },
    });
    return { readable, writable };
  }

  close(): void {
    this.end({ reason: "closed" });
  }
}

/** connect opens a session with FakeTransport.latest. */
export async function connect(protocol = ""): Promise<Session> {
  globalThis.WebTransport = FakeTransport as unknown as typeof WebTransport;
  FakeTransport.protocol = protocol;
  return Session.connect({ url: "https://relay.example/" });
}

/** settle lets everything happen that waits for nothing else. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
