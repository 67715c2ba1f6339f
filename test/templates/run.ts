import { spawnSync } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { JinjaTemplate } from '../../src/engine/template/jinja.ts';
import { ChatTemplate } from '../../src/engine/template/template.ts';
import { testModel } from '../../tools/test-models/models.ts';
import { CONVERSATIONS, type Conversation, messagesOf, toolsOf } from './conversations.ts';
import { type Name, nameOf, type Said } from './names.ts';
import { startServer } from './server.ts';

/**
 * Compares how chat templates are rendered: `npm run templates -- folder [--server llama-server]
 * [--write]`. `folder` has public templates, such as `models/templates` of llama.cpp.
 *
 * 1. With Python's jinja2 3.1, as the package transformers sets it up: the same values. It needs
 *    Python 3 with jinja2.
 * 2. With `--server`, the prompt of svc with that of a llama-server for the same request. It needs
 *    the small model of `npm run test-models`.
 *
 * `--write` puts the table into docs/models.md. It exits with 1 if a difference has no name.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { server: { type: 'string' }, write: { type: 'boolean', default: false } },
});
const [folder] = positionals;
if (folder === undefined) {
  console.error('Name a folder with templates: npm run templates -- folder');
  process.exit(2);
}
const files = globSync(join(folder, '*.jinja')).sort();
const now = new Date();
const TOKENS = { bos_token: '<s>', eos_token: '</s>' };

/** What differs from one other way to render. */
class Differences {
  equal = 0;
  refused = 0;
  readonly named = new Map<Name, Set<string>[]>();
  readonly nameless: string[] = [];
  private readonly other: 'python' | 'server';

  constructor(other: 'python' | 'server') {
    this.other = other;
  }

  add(file: string, conversation: string, ours: Said, theirs: Said): void {
    const name = nameOf(this.other, ours, theirs);
    if (name === null) {
      if (ours.error === undefined) this.equal += 1;
      else this.refused += 1;
      return;
    }
    const where = `${basename(file, '.jinja')}: ${conversation}`;
    if (name === undefined) {
      this.nameless.push(`${where}\n${shownDifference(ours, theirs)}`);
      return;
    }
    const [cases = new Set<string>(), templates = new Set<string>()] = this.named.get(name) ?? [];
    this.named.set(name, [cases.add(where), templates.add(basename(file, '.jinja'))]);
  }
}

function shownDifference(ours: Said, theirs: Said): string {
  const [one, two] = [ours.text ?? ours.error ?? '', theirs.text ?? theirs.error ?? ''];
  let same = 0;
  while (same < one.length && one[same] === two[same]) same += 1;
  const part = (text: string) => JSON.stringify(text.slice(Math.max(0, same - 30), same + 90));
  return `  svc    ${part(one)}\n  other  ${part(two)}`;
}

function said(work: () => string): Said {
  try {
    return { text: work() };
  } catch (thrown) {
    return { error: (thrown as Error).message };
  }
}

function withPython(): Differences {
  const found = new Differences('python');
  const two = (value: number) => String(value).padStart(2, '0');
  const month = now.toLocaleString('en-US', { month: 'short' });
  const [day, year] = [two(now.getDate()), now.getFullYear()];
  const usual = {
    ...TOKENS,
    add_generation_prompt: true,
    enable_thinking: true,
    preserve_thinking: true,
    clear_thinking: false,
    truncate_history_thinking: false,
    drop_thinking: false,
    date_string: `${day} ${month} ${year}`,
    datetime: `${month} ${day} ${year}`,
  };
  const all = Object.values(CONVERSATIONS).map((each) => ({ ...usual, ...each }));
  const asked = files.map((file) => {
    const source = readFileSync(file, 'utf8');
    return JSON.stringify({ source, now: now.getTime(), all });
  });
  const script = join(import.meta.dirname, 'render.py');
  const input = `${asked.join('\n')}\n`;
  const python = spawnSync('python3', [script], { input, maxBuffer: 2 ** 30, encoding: 'utf8' });
  if (python.status !== 0) throw new Error(python.stderr || String(python.error));
  const lines = python.stdout.trim().split('\n');
  for (const [at, file] of files.entries()) {
    const theirs = JSON.parse(lines[at] ?? '') as Said[];
    const source = readFileSync(file, 'utf8');
    for (const [index, name] of Object.keys(CONVERSATIONS).entries())
      found.add(
        file,
        name,
        said(() => new JinjaTemplate(source).render(all[index] ?? {}, now)),
        theirs[index] ?? { error: 'no answer' },
      );
  }
  return found;
}

async function withServer(program: string): Promise<Differences> {
  const found = new Differences('server');
  const model = testModel('smollm2');
  if (model === null) throw new Error('The small model is missing. Run: npm run test-models');
  for (const file of files) {
    const server = await startServer(program, model, file);
    try {
      const template = new ChatTemplate(readFileSync(file, 'utf8'), server.tokens);
      for (const [name, conversation] of Object.entries(CONVERSATIONS)) {
        const ours = said(() => promptOf(template, conversation));
        const theirs = await server.prompt(conversation).then(
          (text): Said => ({ text }),
          (thrown: Error): Said => ({ error: thrown.message }),
        );
        const isGeneric = !template.hasTools && conversation.tools !== undefined;
        if (isGeneric) generic.add(`${file} ${name}`);
        else found.add(file, name, ours, theirs);
      }
    } finally {
      await server.close();
    }
  }
  return found;
}
const generic = new Set<string>();

function promptOf(template: ChatTemplate, { messages, tools = [] }: Conversation): string {
  const plain = (text: string) => text;
  return template.render({ messages: messagesOf(messages), tools: toolsOf(tools), now, plain });
}

function rowsOf(title: string, { equal, refused, named, nameless }: Differences): string[] {
  const rows = [...named].sort(([, [a]], [, [b]]) => (b?.size ?? 0) - (a?.size ?? 0));
  return [
    `| **${title}**: equal | ${equal} | |`,
    ...(refused === 0 ? [] : [`| both refuse | ${refused} | |`]),
    ...rows.map(([name, [cases, templates]]) => {
      const all = [...(templates ?? [])];
      const shown = all.length > SHOWN_MAX ? `${all.length} templates` : all.join(', ');
      return `| ${name} | ${cases?.size} | ${shown} |`;
    }),
    ...(nameless.length === 0 ? [] : [`| without a name | ${nameless.length} | |`]),
  ];
}
const SHOWN_MAX = 3;

const python = withPython();
const server = values.server === undefined ? null : await withServer(values.server);
const lines = [
  '| Of ' +
    `${files.length} templates × ${Object.keys(CONVERSATIONS).length} conversations | Cases | Templates |`,
  '| --- | --- | --- |',
  ...rowsOf("Rendering, compared with Python's jinja2", python),
  ...(server === null ? [] : rowsOf('Prompts, compared with `llama-server`', server)),
  ...(generic.size === 0
    ? []
    : [`| tools in the generic form of svc, not compared | ${generic.size} | |`]),
];
console.log(lines.join('\n'));
const nameless = [...python.nameless, ...(server?.nameless ?? [])];
for (const each of nameless) console.log(`\nWithout a name: ${each}`);
if (values.write) {
  const page = 'docs/models.md';
  const marked = /(<!-- templates-compared -->\n).*?(\n<!-- \/templates-compared -->)/s;
  const text = readFileSync(page, 'utf8');
  if (!marked.test(text)) throw new Error(`${page} has no place for the table.`);
  writeFileSync(
    page,
    text.replace(marked, (_, before, after) => before + lines.join('\n') + after),
  );
}
process.exitCode = nameless.length > 0 ? 1 : 0;
