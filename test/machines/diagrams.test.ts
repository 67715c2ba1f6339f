import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { describe } from '../../machines/describe.ts';
import { choiceOf, isFirst, outline } from '../../machines/diagrams/outline.ts';
import { outcomeOf, outcomes } from '../../machines/diagrams/paint.ts';
import { isEffect } from '../../machines/effects.ts';
import { appendedBy, rows } from './causes.ts';
import { DATA, drawAll, FOLDER, PAGE } from './diagrams.ts';
import { models } from './models/all.ts';

const drawn = await drawAll();

test('the diagrams in the repository are up to date: else run npm run diagrams', () => {
  const there = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.svg') || file.endsWith('.mmd'))
    .map((file) => `${FOLDER}/${file}`);
  assert.equal(
    [...there, DATA, PAGE].sort(),
    [...drawn.keys()].sort(),
    'npm run diagrams; delete other pictures',
  );
  for (const [file, content] of drawn)
    assert.ok(readFileSync(file, 'utf8') === content, `${file} is stale`);
});

test('each event that a file appends is in the picture of causes, and no other', () => {
  const said = new Map<string, string[]>();
  for (const { file, events } of rows)
    said.set(file, [...new Set([...(said.get(file) ?? []), ...events])].sort());
  const appended = appendedBy();
  assert.ok(appended.size > 20);
  for (const file of new Set([...appended.keys(), ...said.keys()]))
    assert.equal(said.get(file), appended.get(file), `${file}: its rows are in causes.ts`);
});

test('a machine asks for the effects that the picture of causes gives it, and its events are heard', () => {
  for (const { file, from, by } of rows) {
    const machine = models.find(({ machine }) => machine.id === from)?.machine;
    if (machine === undefined) continue;
    const { states, transitions } = describe(machine);
    const effects = [...states, ...transitions].flatMap((one) =>
      'effects' in one ? one.effects : one.actions,
    );
    if (isEffect(by)) assert.ok(effects.includes(by), `${from} asks for no ${by}`);
    if (by === 'events')
      assert.match(readFileSync(file, 'utf8'), `onProposed('${from}'`, `${file} hears no ${from}`);
  }
});

test('drawing twice gives the same bytes', async () => {
  assert.equal([...(await drawAll())], [...drawn]);
});

test('each diagram shows every state, event, guard and effect of its machine', () => {
  for (const { machine } of models) {
    const { states, edges } = outline(machine);
    const labels = [...states.flatMap(({ loops }) => loops), ...edges];
    const words = [
      ...states.flatMap(({ name, effects }) => [name, ...effects]),
      ...labels.flatMap(({ event, guard }) => [event, guard ?? '']),
    ];
    assert.ok(words.length > 8);
    for (const file of [
      `${FOLDER}/${machine.id}.svg`,
      `${FOLDER}/walked/${machine.id}.svg`,
      PAGE,
    ]) {
      const text = plain(drawn.get(file) ?? '');
      for (const word of new Set(words))
        assert.ok(text.includes(plain(word)), `${file} lacks ${word}`);
    }
  }
});

test('the text of a diagram for readers is large enough, and names no bookkeeping', () => {
  for (const { machine } of models) {
    const svg = drawn.get(`${FOLDER}/${machine.id}.svg`) ?? '';
    const sizes = [...svg.matchAll(/font-size="([\d.]+)"/g)].map(([, size]) => Number(size));
    assert.ok(sizes.length > 20 && Math.min(...sizes) >= 12, `${Math.min(...sizes)}`);
    assert.not.ok(svg.includes('evolve'));
  }
});

test('an arrow has the colour of its outcome', () => {
  for (const { machine } of models) {
    const svg = drawn.get(`${FOLDER}/${machine.id}.svg`) ?? '';
    for (const outcome of new Set(outline(machine).edges.map(outcomeOf)))
      assert.match(
        svg,
        new RegExp(
          `class="edge transition ${outcome}( named)?">[^]*?(stroke|fill)="${outcomes[outcome].line}"`,
        ),
      );
  }
});

test('in a picture every state and every arrow has its own id', () => {
  for (const { machine } of models) {
    const drawing = outline(machine);
    const { states, edges } = drawing;
    const path = (id: string) => states.find((state) => state.id === id)?.path ?? '';
    const ids = [
      ...plain(drawn.get(`${FOLDER}/${machine.id}.svg`) ?? '').matchAll(
        /<g id="((?:state|edge):[^"]+)" class="(node|cluster|edge) /g,
      ),
    ].map(([, id = '']) => id);
    assert.is(new Set(ids).size, ids.length);
    assert.equal(
      ids.filter((id) => id.startsWith('state:')).sort(),
      states.map(({ path }) => `state:${path}`).sort(),
    );
    assert.equal(
      ids
        .filter((id) => id.startsWith('edge:'))
        .map((id) => id.replace(/\|\d+$/, ''))
        .sort(),
      edges
        .flatMap((edge) => {
          const choice = choiceOf(drawing, edge);
          if (choice !== undefined && !isFirst(choice, edge)) return [];
          const to = choice === undefined ? path(edge.to) : 'choice';
          return [`edge:${path(edge.from)}|${edge.type}|${to}`];
        })
        .sort(),
    );
  }
});

/** Graphviz writes some signs as entities. */
function plain(text: string): string {
  return text
    .replace(/&#(\d+);/g, (_, code: string) => String.fromCharCode(Number(code)))
    .replaceAll('\u00a0', ' ');
}

test.run();
