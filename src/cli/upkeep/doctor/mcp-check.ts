import { mcpFile, readMcpFile } from '../../../config/mcp-file.ts';
import { type Check, type DoctorContext, fail, ok, warn } from './check.ts';

/** The tool servers: the file, and their states in the daemon. */
export function checkToolServers({ paths, running }: DoctorContext): Check[] {
  const file = mcpFile(paths.config);
  const { servers, problems } = readMcpFile(file);
  const failing = running?.status.tools ?? [];
  return [
    ...[...problems].map(([name, problem]) =>
      fail(`tools ${name}`, `It is left out: ${problem}.`, `Correct it in ${file}.`),
    ),
    ...[...servers.keys()].map((name) => {
      const found = failing.find((server) => server.name === name && server.reason !== null);
      return found === undefined
        ? ok(`tools ${name}`, 'configured')
        : warn(`tools ${name}`, found.reason ?? found.state, whatToDo(name, found.code));
    }),
  ];
}

function whatToDo(name: string, code: string | null): string {
  return code === 'mcp_login_needed'
    ? `Log in: svc mcp login ${name}`
    : `Test it: svc mcp test ${name}`;
}
