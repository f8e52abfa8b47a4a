// The live page: <main> is replaced by that of a new page when the server says that the content changed. Markup comes from
// the server's page only, which the browser parses without running anything.
const state = document.getElementById("state"), notice = document.getElementById("notice");
let version = state.dataset.version, wanted = version, fetching = false, stream = null;
function say(text) { notice.textContent = text; notice.hidden = !text; }
function swap(page) {
  const [x, y] = [scrollX, scrollY];
  document.querySelector("main").replaceWith(document.adoptNode(page.querySelector("main")));
  document.title = page.title;
  for (const name of ["h1", "#source"]) document.querySelector(name).textContent = page.querySelector(name).textContent;
  prepare();
  prepareMap();
  changed();
  scrollTo(x, y);
}
async function renew() {
  if (fetching || document.hidden) return;
  fetching = true;
  try {
    while (version !== wanted) {
      const answer = await fetch("/", {headers: {Accept: "text/html"}, cache: "no-store"});
      if (answer.status === 401 || answer.status === 403) { location.reload(); return; }
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const there = page.getElementById("state");
      if (there === null) { location.reload(); return; }
      if (there.dataset.version === version) break;
      swap(page);
      version = there.dataset.version;
    }
  } catch (problem) {
    setTimeout(renew, 5000);
  } finally {
    fetching = false;
  }
}
function listen() {
  stream = new EventSource("/events");
  stream.addEventListener("open", () => { state.textContent = "live"; });
  stream.addEventListener("changed", event => { wanted = event.data; renew(); });
  stream.addEventListener("stale", event => { say(event.data); });
  stream.addEventListener("current", () => { say(""); });
  stream.addEventListener("ended", () => { stream.close(); location.reload(); });
  stream.addEventListener("error", () => {
    state.textContent = "not connected";
    if (stream.readyState === EventSource.CLOSED) setTimeout(again, 5000);
  });
}
async function again() {
  try {
    const answer = await fetch("/", {method: "HEAD", cache: "no-store"});
    if (answer.status === 401 || answer.status === 403) { location.reload(); return; }
  } catch (problem) { /* not connected yet */ }
  listen();
}
document.addEventListener("visibilitychange", renew);
document.getElementById("leave").addEventListener("submit", () => stream.close());
listen();
