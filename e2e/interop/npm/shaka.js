// Plays ?name= at ?url= with Shaka Player, and reports its size when the picture has changed 20 times.
import shaka from "shaka-player/dist/shaka-player.experimental.js";
import { reportMoving } from "./moving.js";

const query = new URLSearchParams(location.search);
const url = query.get("url");
const shown = document.createElement("video");
shown.muted = true;
shown.autoplay = true;
document.body.append(shown);

shaka.polyfill.installAll();
const player = new shaka.Player();
await player.attach(shown);
const msf = { namespaces: query.get("name").split("/"), fingerprintUri: `${url}certificate.sha256` };
player.configure({ manifest: { msf } });
await player.load(url.replace("http:", "https:"), null, "application/msf");
reportMoving(shown, () => ({ width: shown.videoWidth, height: shown.videoHeight }));
