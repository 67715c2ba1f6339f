import { resolve } from 'node:path';
import {
  editMcpFile,
  isMcpName,
  type McpServerConfig,
  mcpFile,
  readForeignServers,
  readMcpFile,
  readMcpServer,
  targetOf,
} from '../../config/mcp-file.ts';
import { referencesIn } from '../../config/reference.ts';
import { errors, SvcError } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import { oneLine } from '../../logs/plain.ts';
import type { Context } from '../terminal/context.ts';
import { isTerminal, note, print, printJson } from '../terminal/print/output.ts';
import { askYesOrNo } from '../terminal/print/question.ts';
import { tellDaemon } from './server-flags.ts';

interface Candidate {
  name: string;
  /** As the file has it, without the field `svc`. */
  server: object;
  config: McpServerConfig;
}

/**
 * Copies the tool servers of another program's file into `mcp.json`. A person first sees what
 * each starts and gets. Permissions of that program are not copied.
 */
export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const file = mcpFile(paths.config);
  const found = readForeignServers(resolve(args[0] ?? ''));
  const { servers, problems } = readMcpFile(file);
  const { chosen, skipped } = choose(found, (name) => servers.has(name) || problems.has(name));
  if (!json) {
    for (const candidate of chosen) for (const line of linesOf(candidate)) print(oneLine(line));
    for (const { name, reason } of skipped) note(oneLine(`Left out ${name}: ${reason}.`));
    if (found.length === 0) note('The file has no tool servers.');
  }
  if (chosen.length > 0) {
    if (flags.yes !== true && !(await isAgreed(json))) return 0;
    const added = Object.fromEntries(chosen.map(({ name, server }) => [name, server]));
    // A server that came meanwhile has the name first.
    await editMcpFile(file, (now) => {
      const late = Object.keys(added).find((name) => Object.hasOwn(now, name));
      if (late === undefined) return added;
      throw new SvcError('mcp_exists', `A tool server ${late} was added meanwhile.`);
    });
    await tellDaemon(paths);
  }
  if (json)
    printJson({ imported: chosen.map(({ name }) => name), servers: chosen.map(viewOf), skipped });
  else for (const { name } of chosen) print(oneLine(`Added ${name}.`));
  return skipped.length > 0 || found.length === 0 ? errors.config_invalid.exit : 0;
}

function choose(found: ReturnType<typeof readForeignServers>, isKnown: (name: string) => boolean) {
  const chosen: Candidate[] = [];
  const skipped: { name: string; reason: string }[] = [];
  for (const { name: written, value } of found) {
    const { svc: _, ...server } = asRecord(value);
    const name = written.trim().replace(/[^A-Za-z0-9_.-]+/g, '-');
    const config = readMcpServer(server);
    const skip = (reason: string) => skipped.push({ name: written, reason });
    if (typeof config === 'string') skip(config);
    else if (config.built_in !== null) skip('what svc itself may reach is for you to say');
    else if (!isMcpName(name)) skip('its name cannot be used');
    else if (isKnown(name) || chosen.some((each) => each.name === name))
      skip(`there is a server ${name} already`);
    else chosen.push({ name, server, config });
  }
  return { chosen, skipped };
}

/** The text that a person agrees to. It shows no value of a variable, except in a command. */
function linesOf(candidate: Candidate): string[] {
  const { name, config } = candidate;
  const { target, variables, keys, env, headers } = viewOf(candidate);
  const command = config.command?.map((word) =>
    /^[\w@%+=:,./~-]+$/.test(word) ? word : JSON.stringify(word),
  );
  const rows: [string, readonly string[]][] = [
    ['gets these variables of yours', variables],
    ['gets these stored keys', keys],
    ['gets these values of the file', env],
    ['gets these headers', headers],
  ];
  return [
    `${name} ${command === undefined ? `asks ${target}` : `starts ${command.join(' ')}`}`,
    ...rows.flatMap(([what, names]) =>
      names.length === 0 ? [] : [`  ${what}: ${names.join(', ')}`],
    ),
  ];
}

function viewOf({ name, config }: Candidate) {
  const { command, url, env, headers } = config;
  const texts = [...(command ?? []), url ?? '', ...Object.values(env), ...Object.values(headers)];
  const references = texts.flatMap(referencesIn);
  const namesOf = (kind: string) => [
    ...new Set(references.filter((each) => each.kind === kind).map((each) => each.name)),
  ];
  const isOwn = ([, text]: [string, string]) => referencesIn(text).length === 0;
  return {
    name,
    target: targetOf(config),
    variables: namesOf('variable'),
    keys: namesOf('key'),
    env: Object.entries(env)
      .filter(isOwn)
      .map(([each]) => each),
    headers: Object.keys(headers),
  };
}

async function isAgreed(json: boolean): Promise<boolean> {
  if (json || !isTerminal(0) || !isTerminal(2))
    throw new SvcError('usage', 'Nothing was written.', { hint: 'To write it, add: --yes' });
  if (await askYesOrNo('Add them?')) return true;
  note('Nothing was written.');
  return false;
}
