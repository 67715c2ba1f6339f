import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attempt, SVC_URL } from './cases.mjs';
import { run } from './programs.mjs';

// The official suite of MCP, against svc as a client of tool servers, and as a server. Each
// scenario is a case.
const SUITE = join(
  import.meta.dirname,
  'node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const CLIENT = join(import.meta.dirname, 'mcp_conformance_client.mjs');
const SCENARIO_MS = '120000';

const listed = await run(process.execPath, [SUITE, 'list']);
const [server = '', client = ''] = listed.split(/^Client scenarios.*$/m);
const namesIn = (text) => [...text.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name);

for (const name of namesIn(client)) {
  const command = `"${process.execPath}" "${CLIENT}"`;
  await scenario('client', name, ['--command', command, '--timeout', SCENARIO_MS]);
}
for (const name of namesIn(server)) await scenario('server', name, ['--url', `${SVC_URL}/mcp`]);

async function scenario(role, name, args) {
  await attempt(`${role} ${name}`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-conformance-'));
    try {
      const words = [SUITE, role, '--scenario', name, '-o', folder, ...args];
      // A scenario may let the client fail, so the checks decide.
      const said = await run(process.execPath, words).catch(({ said, message }) => said ?? message);
      judge(checksOf(folder), said);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

function checksOf(folder) {
  const files = readdirSync(folder, { recursive: true }).map(String);
  const file = files.find((each) => each.endsWith('checks.json'));
  return file === undefined ? [] : JSON.parse(readFileSync(join(folder, file), 'utf8'));
}

function judge(checks, said) {
  const judged = checks.filter(({ status }) => status !== 'INFO');
  const failed = judged.filter(({ status }) => status !== 'SUCCESS');
  if (judged.length === 0 && checks.length === 0) throw new Error(`no check: ${said.slice(-200)}`);
  if (failed.length === 0) return;
  const [{ status, name, errorMessage = '', details = {} }] = failed;
  const why = errorMessage || details.message || '';
  throw new Error(`${failed.length} of ${judged.length}: ${status} ${name}: ${why}`);
}
