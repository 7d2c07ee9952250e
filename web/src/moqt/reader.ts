import { decodeInt, lengthAfter, ProtocolError } from "./wire.js";

/** How many bytes of a field there is memory for before any has come: anybody can claim a length. */
const firstPart = 64 << 10;

/** StreamReader reads integers and bytes from a stream. */
export class StreamReader {
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  private chunk: Uint8Array = new Uint8Array();

  constructor(stream: ReadableStream<Uint8Array>) {
    this.reader = stream.getReader();
  }

  /** more makes at least one byte available, or returns false at the end of the stream. */
  async more(): Promise<boolean> {
    while (this.chunk.length === 0) {
      const { value, done } = await this.reader.read();
      if (done) return false;
      this.chunk = value;
    }
    return true;
  }

  async bytes(n: number): Promise<Uint8Array<ArrayBuffer>> {
    let out = new Uint8Array(Math.min(n, firstPart));
    for (let at = 0; at < n; ) {
      if (!(await this.more())) throw new ProtocolError("a stream ends within a field");
      const part = this.chunk.subarray(0, n - at);
      if (at + part.length > out.length) {
        const grown = new Uint8Array(Math.min(n, Math.max(2 * out.length, at + part.length)));
        grown.set(out);
        out = grown;
      }
      out.set(part, at);
      at += part.length;
      this.chunk = this.chunk.subarray(part.length);
    }
    return out;
  }

  async byte(): Promise<number> {
    if (!(await this.more())) throw new ProtocolError("a stream ends within a field");
    const b = this.chunk[0]!;
    this.chunk = this.chunk.subarray(1);
    return b;
  }

  async int(): Promise<number> {
    const first = await this.byte();
    return decodeInt(first, await this.bytes(lengthAfter(first)));
  }

  /** cancel tells the sender to stop. */
  cancel(code: number): void {
    this.reader.cancel(streamError(code)).catch(() => {});
  }
}

/** streamError is the reason with which a stream is reset. Chromium's constructor differs from the specification's. */
export function streamError(code: number): Error {
  const Type = globalThis.WebTransportError as unknown as (new (...args: unknown[]) => Error) | undefined;
  if (!Type) return new Error(`code ${code}`);
  try {
    return new Type("", { source: "stream", streamErrorCode: code });
  } catch {
    return new Type({ streamErrorCode: code });
  }
}
