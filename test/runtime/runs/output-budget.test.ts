import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { OutputBudget } from '../../../src/runtime/runs/output-recorder.ts';

test('the answers that continue fit the bound, and a provider with less text than another is never cut', () => {
  const part = fc.record({ answer: fc.nat({ max: 11 }), bytes: fc.integer({ min: 1, max: 400 }) });
  fc.assert(
    fc.property(fc.array(part, { maxLength: 60 }), (parts) => {
      const budget = new OutputBudget(1000);
      const sizes = new Map<string, number>();
      const cut = new Set<string>();
      const bytesOf = (provider: string) =>
        [...sizes].reduce(
          (sum, [id, bytes]) => (id[0] === provider && !cut.has(id) ? sum + bytes : sum),
          0,
        );
      for (const { answer, bytes } of parts) {
        const [provider = '', id = ''] = [
          ['a', 'b', 'c'][answer % 3],
          `${['a', 'b', 'c'][answer % 3]}${answer}`,
        ];
        if (cut.has(id)) continue;
        if (!sizes.has(id)) {
          budget.open(id, provider, () => {
            for (const other of ['a', 'b', 'c'])
              assert.ok(
                bytesOf(provider) >= bytesOf(other),
                `${provider} was cut and holds less than ${other}`,
              );
            cut.add(id);
          });
        }
        sizes.set(id, (sizes.get(id) ?? 0) + bytes);
        budget.add(id, 'x'.repeat(bytes));
        assert.ok(bytesOf('a') + bytesOf('b') + bytesOf('c') <= 1000);
      }
    }),
  );
});

test('there is room again when an answer has ended, and the budget reports that', () => {
  let said = 0;
  const budget = new OutputBudget(10);
  budget.onRoom(() => (said += 1));
  budget.open('run_1', 'p', () => {});
  budget.open('run_2', 'q', () => {});
  budget.add('run_1', 'é'.repeat(5));
  assert.not(budget.hasRoom);
  budget.close('run_2');
  assert.is(said, 0);
  budget.close('run_1');
  assert.ok(budget.hasRoom);
  assert.is(said, 1);
});

test.run();
