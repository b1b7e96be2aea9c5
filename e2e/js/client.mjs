// The official client, driven line by line: a Go test writes commands to stdin and
// reads what the client saw from stdout, one JSON object a line each. One process is
// one Client and one transport, however often the host behind it goes away.
//
//   {"n": 1, "do": "connect", "params": {"url": ..., "capabilities": ..., "answers": ...}}
//   {"n": 2, "do": "callTool", "params": {...}, "options": {"progress": true, "timeout": 5000}}
//
// Each command is answered by {"n": ..., "result": ...} or {"n": ..., "error": ...}.
// Between them come events: "http" for each request the transport made, "resumable" when
// it has got an id to resume a command's stream from, "progress", "notification",
// "request" for what the server asked, "error" from the transport.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';

const say = line => process.stdout.write(JSON.stringify(line) + '\n');
const event = (event, data) => say({ event, ...data });

let client, transport;

// tapped is fetch, with a line for each request it made.
async function tapped(url, init) {
  let rpc;
  try { rpc = JSON.parse(init.body).method; } catch { /* no body */ }
  const headers = new Headers(init.headers);
  const seen = {
    method: init.method, rpc,
    session: headers.get('mcp-session-id') ?? undefined,
    resume: headers.get('last-event-id') ?? undefined,
  };
  try {
    const response = await fetch(url, init);
    event('http', { ...seen, status: response.status });
    return response;
  } catch (error) {
    event('http', { ...seen, status: 0, message: String(error.cause ?? error) });
    throw error;
  }
}

async function connect({ url, capabilities = {}, answers = {}, reconnection }) {
  client = new Client({ name: 'kalpa-e2e', version: '1' }, { capabilities });
  const schemas = {
    'sampling/createMessage': CreateMessageRequestSchema,
    'elicitation/create': ElicitRequestSchema,
    'roots/list': ListRootsRequestSchema,
  };
  for (const [method, answer] of Object.entries(answers)) {
    client.setRequestHandler(schemas[method], request => {
      event('request', { method, params: request.params });
      return answer;
    });
  }
  client.fallbackNotificationHandler = async ({ method, params }) => event('notification', { method, params });
  client.onerror = error => event('error', { message: String(error) });
  transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: tapped,
    reconnectionOptions: {
      initialReconnectionDelay: 50, reconnectionDelayGrowFactor: 1.2, maxReconnectionDelay: 200, maxRetries: 200,
      ...reconnection,
    },
  });
  await client.connect(transport);
  return state();
}

const state = () => ({
  session: transport.sessionId,
  protocol: transport.protocolVersion,
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
});

const commands = {
  connect,
  state,
  callTool: (params, options) => client.callTool(params, undefined, options),
  callToolStream: async (params, options) => {
    // A call that the server runs as a task.
    const seen = [];
    for await (const message of client.experimental.tasks.callToolStream(params, undefined, options)) {
      seen.push(message.error ? { type: message.type, error: String(message.error) } : message);
    }
    return seen;
  },
  ping: (_, options) => client.ping(options),
  setLoggingLevel: ({ level }, options) => client.setLoggingLevel(level, options),
  sendRootsListChanged: () => client.sendRootsListChanged(),
  notify: params => client.notification(params),
  terminate: () => transport.terminateSession(),
  close: () => client.close(),
};
for (const name of ['listTools', 'listPrompts', 'getPrompt', 'complete', 'listResources', 'listResourceTemplates',
  'readResource', 'subscribeResource', 'unsubscribeResource']) {
  commands[name] = (params, options) => client[name](params, options);
}

async function run({ n, do: name, params, options = {} }) {
  const { progress, abortAfter, ...rest } = options;
  rest.onresumptiontoken = () => event('resumable', { n });
  if (progress) rest.onprogress = p => event('progress', { n, ...p });
  if (abortAfter) rest.signal = AbortSignal.timeout(abortAfter);
  try {
    say({ n, result: (await commands[name](params, rest)) ?? null });
  } catch (error) {
    say({ n, error: { message: error.message, code: error.code, data: error.data } });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', line => run(JSON.parse(line)));
lines.on('close', () => process.exit(0));
