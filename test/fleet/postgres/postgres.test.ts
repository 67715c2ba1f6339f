import { test } from 'uvu';
import { type Postgres, postgresPrograms, startPostgres } from '../../helpers/postgres.ts';
import { storeConformance } from '../../kernel/store/conformance.ts';
import { databaseOf, makePlace, textsIn } from './subject.ts';

let server: Postgres | null = null;
let database = '';

test.before(async () => {
  if (postgresPrograms === null) return;
  server = await startPostgres();
  database = await databaseOf(server);
});
test.after(() => server?.end());

if (postgresPrograms === null) test.skip('the log in PostgreSQL: it is not installed here');
else
  storeConformance(
    test,
    () => {
      const place = makePlace(database);
      return {
        store: place.store(),
        again: () => place.store(),
        texts: textsIn(place),
        remove: () => place.remove(),
      };
    },
    { shared: true },
  );

test.run();
