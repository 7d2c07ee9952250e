// Watches ?name= at ?url=, and reports its size when the picture has changed 20 times.
import "@moq/watch/element";
import { reportMoving } from "./moving.js";

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
reportMoving(shown, () => ({ width: shown.width, height: shown.height }));
