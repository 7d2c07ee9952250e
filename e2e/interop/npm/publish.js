// Publishes the fake camera of Chromium to ?url= as ?name=.
import "@moq/publish/element";

const query = new URLSearchParams(location.search);
const publish = document.createElement("moq-publish");
for (const name of ["url", "name"]) {
	publish.setAttribute(name, query.get(name));
}
publish.setAttribute("path", query.get("name")); // what earlier releases call the name
publish.setAttribute("source", "camera");
publish.innerHTML = "<video muted autoplay></video>";
document.body.append(publish);
