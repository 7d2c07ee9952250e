// What tests put in the place of a browser's WebTransport.

/** FakeTransport is a WebTransport session whose peer is the test. */
export class FakeTransport {
  static latest: FakeTransport;
  readonly ready = Promise.resolve();
  readonly closed: Promise<{ reason: string }>;
  readonly incomingUnidirectionalStreams: ReadableStream<ReadableStream<Uint8Array>>;
  readonly incomingBidirectionalStreams = new ReadableStream();
  readonly datagrams = { readable: new ReadableStream() };
  private streams!: ReadableStreamDefaultController<ReadableStream<Uint8Array>>;
  private end!: (info: { reason: string }) => void;

  constructor() {
    FakeTransport.latest = this;
    this.closed = new Promise((resolve) => (this.end = resolve));
    this.incomingUnidirectionalStreams = new ReadableStream({ start: (c) => void (this.streams = c) });
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

  async createUnidirectionalStream(): Promise<WritableStream<Uint8Array>> {
    return new WritableStream();
  }

  close(): void {
    this.end({ reason: "closed" });
  }
}

/** settle lets everything happen that waits for nothing else. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
