// The least of MoQT draft-18 that a subscriber needs in a browser: SETUP, SUBSCRIBE, and reading subgroup streams.

const SETUP = 0x2f00, SUBSCRIBE = 0x3, SUBSCRIBE_OK = 0x4, REQUEST_ERROR = 0x5;

/** vi encodes an unsigned integer below 2^28 as a vi64 (draft §1.4.1). */
function vi(n) {
  if (n < 1 << 7) return [n];
  if (n < 1 << 14) return [0x80 | (n >> 8), n & 255];
  if (n < 1 << 21) return [0xc0 | (n >> 16), (n >> 8) & 255, n & 255];
  return [0xe0 | (n >> 24), (n >> 16) & 255, (n >> 8) & 255, n & 255];
}

const utf8 = (s) => [...new TextEncoder().encode(s)];
const lengthPrefixed = (bytes) => [...vi(bytes.length), ...bytes];
const message = (type, payload) => [...vi(type), payload.length >> 8, payload.length & 255, ...payload];

/** Reader reads integers and bytes from a ReadableStream of Uint8Array. */
class Reader {
  constructor(stream) {
    this.reader = stream.getReader();
    this.chunk = new Uint8Array();
  }

  /** more makes at least one byte available, or returns false at the end of the stream. */
  async more() {
    while (this.chunk.length === 0) {
      const { value, done } = await this.reader.read();
      if (done) return false;
      this.chunk = value;
    }
    return true;
  }

  async bytes(n) {
    const out = new Uint8Array(n);
    for (let at = 0; at < n; ) {
      if (!(await this.more())) throw new Error("stream ended inside a field");
      const part = this.chunk.subarray(0, n - at);
      out.set(part, at);
      at += part.length;
      this.chunk = this.chunk.subarray(part.length);
    }
    return out;
  }

  async byte() {
    return (await this.bytes(1))[0];
  }

  /** vi reads a vi64; values beyond 2^53 lose precision, which counters and ids in this page do not reach. */
  async vi() {
    const first = await this.byte();
    const extra = Math.clz32(~(first << 24));
    let value = extra >= 7 ? 0 : first & (0x7f >> extra);
    for (const b of await this.bytes(extra)) value = value * 256 + b;
    return value;
  }
}

/** readMessage reads one control message. */
async function readMessage(reader) {
  const type = await reader.vi();
  const [high, low] = await reader.bytes(2);
  const payload = await reader.bytes((high << 8) | low);
  return { type, body: new Reader(new Blob([payload]).stream()) };
}

/** readSubgroup reads a subgroup stream whose type was read, and calls onObject for each object (draft §11.4.2). */
async function readSubgroup(type, reader, onObject) {
  const alias = await reader.vi();
  const group = await reader.vi();
  if ((type & 0x06) === 0x04) await reader.vi();
  if (!(type & 0x20)) await reader.byte();
  for (let object = -1; await reader.more(); ) {
    object += (await reader.vi()) + 1;
    if (type & 0x01) await reader.bytes(await reader.vi());
    const length = await reader.vi();
    const status = length === 0 ? await reader.vi() : 0;
    onObject({ alias, group, object, status, payload: await reader.bytes(length) });
  }
}

/** subscribe connects to a relay, subscribes to a track and calls onObject for each of its objects. */
export async function subscribe({ url, sha256, namespace, track }, onObject) {
  const hash = Uint8Array.from(sha256.match(/../g), (hex) => parseInt(hex, 16));
  const session = new WebTransport(url, {
    protocols: ["moqt-18"],
    serverCertificateHashes: [{ algorithm: "sha-256", value: hash }],
  });
  await session.ready;

  const control = (await session.createUnidirectionalStream()).getWriter();
  await control.write(new Uint8Array(message(SETUP, [0x07, ...lengthPrefixed(utf8("sluice-page"))])));

  const accept = async () => {
    for (const streams = session.incomingUnidirectionalStreams.getReader(); ; ) {
      const { value, done } = await streams.read();
      if (done) return;
      const reader = new Reader(value);
      const type = await reader.vi();
      if (type < 0x80 && type & 0x10) readSubgroup(type, reader, onObject).catch(onError);
    }
  };
  let onError;
  const failed = new Promise((_, reject) => (onError = reject));
  accept().catch(onError);

  const request = await session.createBidirectionalStream();
  const fields = namespace.split("/").map((field) => lengthPrefixed(utf8(field)));
  const name = lengthPrefixed(utf8(track));
  await request.writable.getWriter().write(
    new Uint8Array(message(SUBSCRIBE, [0, ...vi(fields.length), ...fields.flat(), ...name, 0])));
  const { type, body } = await readMessage(new Reader(request.readable));
  if (type === REQUEST_ERROR) throw new Error(`the relay refused the subscription: code ${await body.vi()}`);
  if (type !== SUBSCRIBE_OK) throw new Error(`unexpected message ${type}`);
  return { session, failed, protocol: session.protocol };
}
