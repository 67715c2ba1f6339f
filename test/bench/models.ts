import { askSeveralModels } from '../helpers/several-models.ts';
import { Report } from './lib/report.ts';

/**
 * Three models with memory for two, eight clients, 200 runs: `npm run bench models [runs]`. It
 * prints the loads beside the least possible, and beside those of a service in order.
 */
const runs = Number(process.argv[2] ?? 200);
const turn_ms = 10_000;
const found = await askSeveralModels({ clients: 8, runs, tokens: 50, turn_ms });
const { statuses, loads, loads_in_order, most, passed_ms, longest_wait_ms } = found;
console.log(`${runs} runs of 8 clients by status: ${JSON.stringify(statuses)}`);
const report = new Report('models');
const add = (what: string, unit: string, way: string, value: number) =>
  report.add({ what, unit, way, values: [value], floor: 'least possible' });
add('loads', 'loads', 'least possible', 3);
add('loads', 'loads', 'in the order of arrival', loads_in_order);
add('loads', 'loads', 'svc', loads);
add('most models in memory', 'models', 'svc', most);
add('all runs', 's', 'svc', passed_ms / 1000);
add('longest wait of one run', 's', 'svc', longest_wait_ms / 1000);
report.print();
