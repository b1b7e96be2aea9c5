// Reads values off the curves where the pointer is.
for (const chart of document.querySelectorAll(".chart")) {
  const source = chart.querySelector('script[type="application/json"]');
  if (!source) continue;
  const d = JSON.parse(source.textContent), svg = chart.querySelector("svg"), cursor = chart.querySelector(".cursor"), read = chart.querySelector(".read");
  const left = +cursor.dataset.left, right = +cursor.dataset.right;
  const two = n => String(Math.floor(n)).padStart(2, "0");
  svg.addEventListener("pointermove", e => {
    const x = (e.clientX - svg.getBoundingClientRect().left) * svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
    const at = (x - left) / (right - left) * d.end;
    if (at < 0 || at > d.end || !d.t) return;
    let low = 0, high = d.t.length - 1; // the last change before
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (d.t[mid] <= at) low = mid; else high = mid - 1;
    }
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.style.visibility = "visible";
    const values = d.names.map((name, i) => name + " " + (+d.v[i][low].toFixed(2)) + (d.unit ? " " + d.unit : ""));
    read.textContent = Math.floor(at / 3600) + ":" + two(at / 60 % 60) + ":" + two(at % 60) + "  " + values.join(" · ");
  });
  svg.addEventListener("pointerleave", () => { cursor.style.visibility = "hidden"; read.textContent = ""; });
}
