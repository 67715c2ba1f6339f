import { importLog } from '../../../../src/kernel/store/transfer/import.ts';
import { foldRows } from '../../../../src/observability/history/fold-rows.ts';
import { targetOf } from './files.ts';

/** Imports a log from stdin: `import-process.ts <database> <highWater>`. Says each batch. */
const [, , database = '', highWater = ''] = process.argv;
const target = targetOf({ database, highWater });
const said: typeof target = {
  ...target,
  append: async (events, runs) => {
    await target.append(events, runs);
    console.log(`appended ${events.length}`);
  },
};
await importLog(process.stdin, { target: said, folder: foldRows() });
await target.close();
