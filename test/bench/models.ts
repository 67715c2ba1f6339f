import { askSeveralModels } from '../helpers/several-models.ts';

/**
 * Three models with memory for two, eight clients, 200 runs: `tsx test/bench/models.ts [runs]`. It
 * prints the loads beside the least possible, and beside those of a service in order.
 */
const runs = Number(process.argv[2] ?? 200);
const turn_ms = 10_000;
const found = await askSeveralModels({ clients: 8, runs, tokens: 50, turn_ms });
const { statuses, loads, loads_in_order, most, passed_ms, longest_wait_ms } = found;
const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
console.log(`${runs} runs of 8 clients by status: ${JSON.stringify(statuses)}`);
console.log(`loads ${loads}; least possible 3; in the order of arrival ${loads_in_order}`);
console.log(
  `at most ${most} models in memory; ${seconds(passed_ms)} in all, turns of ${seconds(turn_ms)}`,
);
console.log(`longest wait of one run ${seconds(longest_wait_ms)}`);
