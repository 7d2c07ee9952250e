// Plays the video ?name= at ?url= by draft ?draft=, with the MoQT session of Playa, the catalog of MSF and WebCodecs, and
// reports its size when 50 frames are decoded. With ?publish= it publishes a track of that many objects instead.
import { MoqtConnection } from "@moqt/webtransport";

const query = new URLSearchParams(location.search);
const encode = (text) => new TextEncoder().encode(text);
const namespace = query.get("name").split("/").map(encode);
const draft = Number(query.get("draft"));

async function connect() {
	const url = query.get("url");
	const hash = await (await fetch(`${url}certificate.sha256`)).text();
	const value = Uint8Array.from(hash.trim().match(/../g), (byte) => parseInt(byte, 16));
	const transport = new WebTransport(url.replace("http:", "https:"), {
		protocols: [`moqt-${draft}`],
		serverCertificateHashes: [{ algorithm: "sha-256", value }],
	});
	await transport.ready;
	const session = new MoqtConnection(draft);
	await session.connect(transport, { maxRequestId: 100n }); // of the relay, in draft 16
	return session;
}

// inOrder calls f with the objects of a group in order, from its first one on: each layer has a stream of its own.
function inOrder(f) {
	let group = -1n;
	let next = 0n;
	let waiting = new Map();
	return (object) => {
		if (object.groupId < group || (group === -1n && object.objectId !== 0n)) return;
		if (object.groupId > group) [group, next, waiting] = [object.groupId, 0n, new Map()];
		waiting.set(object.objectId, object);
		for (; waiting.has(next); next++) f(waiting.get(next));
	};
}

async function play(session) {
	const { codec, initData, name } = await new Promise((resolve) => {
		session.subscribeTrack(namespace, encode("catalog"), {
			onObject: (object) => {
				const catalog = JSON.parse(new TextDecoder().decode(object.payload));
				resolve(catalog.tracks.find((track) => track.role === "video"));
			},
		});
	});
	let frames = 0;
	const decoder = new VideoDecoder({
		output: (frame) => {
			const size = { width: frame.displayWidth, height: frame.displayHeight };
			frame.close();
			if (++frames === 50) fetch("/result", { method: "POST", body: JSON.stringify(size) });
		},
		error: (e) => console.error(e),
	});
	decoder.configure({ codec, description: Uint8Array.from(atob(initData), (c) => c.charCodeAt(0)) });
	let timestamp = 0;
	const decode = inOrder((object) => {
		const type = object.objectId === 0n ? "key" : "delta";
		if (object.payload?.length) {
			decoder.decode(new EncodedVideoChunk({ type, timestamp: timestamp++, data: object.payload }));
		}
	});
	await session.subscribeTrack(namespace, encode(name), { onObject: decode });
}

async function publish(session, count) {
	session.onSubscribe = async (request) => {
		await session.acceptSubscribe(request, 7n);
		for (let group = 0; group < count; group += 10) {
			const stream = await session.openSubgroup(7n, BigInt(group / 10), 0n, draft === 18 ? { firstObject: true } : {});
			for (let i = 0; i < 10; i++) await session.sendObject(stream, BigInt(i), encode(`object ${group + i}`));
			await session.closeSubgroup(stream);
		}
	};
	await session.publishNamespace(namespace);
}

const session = await connect();
await (query.has("publish") ? publish(session, Number(query.get("publish"))) : play(session));
