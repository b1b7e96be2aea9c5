// A real browser, driven line by line: a Go test writes commands to stdin and reads what
// came of each from stdout, one JSON object a line.
//
//   {"do": "open", "args": {"url": ..., "scheme": "dark", "width": 1280, "height": 900}}
//   {"do": "click", "args": {"at": "#pause"}}
//
// Each is answered by {"result": ...} or {"error": ...}, when what it waits for has come:
// elements are named by playwright's selectors, and waited for.
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const patience = 60_000;
const browser = await chromium.launch({
  executablePath: process.argv[2], timeout: patience,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
});

let page, problems = [];

async function open({ url, scheme = 'light', width = 1280, height = 900 }) {
  await page?.context().close();
  problems = [];
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height }, reducedMotion: 'reduce' });
  context.setDefaultTimeout(patience);
  page = await context.newPage();
  const origin = new URL(url).origin;
  page.on('pageerror', error => problems.push('a script failed: ' + error.stack));
  page.on('console', message => {
    // What the network did not bring is the page's to show, and the browser's to note.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) problems.push(message.text());
  });
  page.on('request', request => {
    if (new URL(request.url()).origin !== origin) problems.push('asked for ' + request.url());
  });
  await page.goto(url);
}

// until waits for an expression to hold. (page.waitForFunction evaluates it from within
// the page, whose policy forbids that.)
async function until(js) {
  for (const end = Date.now() + patience; ;) {
    if (await page.evaluate(js)) return;
    if (Date.now() > end) throw new Error(`not after ${patience / 1000} s: ${js}`);
    await page.waitForTimeout(30);
  }
}

const first = at => page.locator(at).first();

const commands = {
  open,
  reload: () => page.reload(),
  see: ({ at }) => first(at).waitFor({ state: 'visible' }),
  gone: ({ at }) => until(`!document.querySelector(${JSON.stringify(at)})?.checkVisibility()`),
  click: ({ at }) => first(at).click(),
  hover: ({ at }) => first(at).hover(),
  fill: ({ at, text }) => first(at).fill(text),
  select: ({ at, text }) => first(at).selectOption(text),
  press: ({ key }) => page.keyboard.press(key),
  text: ({ at }) => first(at).textContent(),
  texts: ({ at }) => page.locator(at).allTextContents(),
  until: ({ js }) => until(js),
  eval: ({ js }) => page.evaluate(js),
  shot: ({ path, full }) => page.screenshot({ path, fullPage: full ?? false }),
  problems: () => problems,
};

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, args } = JSON.parse(line);
  let reply;
  try {
    reply = { result: await commands[name](args ?? {}) ?? null };
  } catch (error) {
    reply = { error: error.message };
  }
  if (typeof reply.result === 'object' && reply.result !== null && !Array.isArray(reply.result)) reply.result = null; // a handle
  process.stdout.write(JSON.stringify(reply) + '\n');
}
await browser.close();
process.exit(0);
