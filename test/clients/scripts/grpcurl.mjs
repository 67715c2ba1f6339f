import { attempt, includes, SVC_MODEL_ID, SVC_TOKEN } from './cases.mjs';
import { run } from './programs.mjs';

const address = process.env.SVC_GRPC_ADDRESS;
const token = ['-H', `authorization: Bearer ${SVC_TOKEN}`];
const call = (...args) => run('grpcurl', ['-plaintext', ...args]);

await attempt('reflection lists the services', async () =>
  includes(await call(...token, address, 'list'), 'svc.runtime.v1.Runtime'),
);
await attempt('health without a token', async () =>
  includes(await call(address, 'grpc.health.v1.Health/Check'), 'SERVING'),
);
await attempt('a run', async () => {
  const data = JSON.stringify({ prompt: 'hello there', model: SVC_MODEL_ID });
  includes(await call(...token, '-d', data, address, 'svc.runtime.v1.Runtime/Run'), 'hello');
});
await attempt('a call without a token is refused', async () => {
  const error = await call(address, 'svc.runtime.v1.Runtime/List').then(
    () => null,
    (thrown) => thrown,
  );
  includes(error?.message, 'Unauthenticated');
});
await attempt('the details of an error can be read', async () => {
  const error = await call(
    ...token,
    '-d',
    '{"id":"run_x"}',
    address,
    'svc.runtime.v1.Runtime/Get',
  ).then(
    () => null,
    (thrown) => thrown,
  );
  includes(error?.message, 'ErrorInfo');
});
