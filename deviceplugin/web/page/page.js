// Showing, and asking again.

const PERIOD = 2000;
let status = JSON.parse(document.getElementById("status").textContent);
let drift = 0;
let lost = false;
let opened = null;

function now() {
  return Date.now() / 1000 + drift;
}

function take(fresh) {
  status = fresh;
  drift = fresh.now - Date.now() / 1000;
}

function show() {
  document.title = `${status.plugin.hostname || "GPU node"} · ${headline(status)[1]}`;
  patch(document.getElementById("page"), [
    top(status), notices(status), status.gpus.length ? figures(status) : null, status.gpus.length ? nodeDrawing(status) : null, panels(status),
    h("footer", {}, "gpu-device-plugin ", status.plugin.version, " · ", h("a", { href: "metrics" }, "metrics"), " · ", h("a", { href: "status" }, "status as JSON")),
  ].filter(Boolean));
  drawBands();
  showDetails();
  tick();
}

function tick() {
  const age = status.sample.at ? now() - status.sample.at : null;
  const stale = known(age) && age > 3 * status.sample.interval + 5;
  const line = document.getElementById("age");
  line.textContent = lost ? "connection lost, trying again" : known(age) ? `figures ${span(age)} old` : "no figures yet";
  line.className = lost || stale ? "bad" : "quiet";
}

function openDetails(uuid) {
  opened = uuid;
  showDetails();
  document.getElementById("details").showModal();
}

function showDetails() {
  const gpu = status.gpus.find((one) => one.uuid === opened);
  if (gpu) patch(document.getElementById("details"), [h("div", {}, details(gpu))]);
}

async function refresh() {
  if (document.visibilityState === "visible") {
    try {
      const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(PERIOD * 2) });
      if (!answer.ok) throw new Error(answer.statusText);
      take(await answer.json());
      lost = false;
      show();
    } catch {
      lost = true;
      tick();
    }
  }
  setTimeout(refresh, PERIOD);
}

take(status);
show();
new ResizeObserver(drawBands).observe(document.getElementById("page"));
document.getElementById("details").addEventListener("click", (event) => event.target === event.currentTarget && event.currentTarget.close());
setInterval(tick, 1000);
setTimeout(refresh, PERIOD);
