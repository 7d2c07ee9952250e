// Watches ?name= at ?url=, and reports its size when the picture has changed 20 times.
import "@moq/watch/element";

const query = new URLSearchParams(location.search);
const watch = document.createElement("moq-watch");
for (const name of ["url", "name"]) {
	watch.setAttribute(name, query.get(name));
}
watch.setAttribute("muted", "");
watch.setAttribute("visible", "always");
watch.innerHTML = "<canvas></canvas>";
document.body.append(watch);

const shown = watch.querySelector("canvas");
const small = new OffscreenCanvas(32, 24).getContext("2d", { willReadFrequently: true });
let last = "";
let changes = -1; // the first picture is no change
const timer = setInterval(() => {
	if (shown.width === 0) return;
	small.drawImage(shown, 0, 0, 32, 24);
	const now = small.getImageData(0, 0, 32, 24).data.join();
	if (now !== last) changes++;
	last = now;
	if (changes < 20) return;
	clearInterval(timer);
	fetch("/result", { method: "POST", body: JSON.stringify({ width: shown.width, height: shown.height }) });
}, 40);
