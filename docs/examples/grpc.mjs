import { credentials, loadPackageDefinition, Metadata } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

// The contract is a file of this package. Other clients get it by reflection.
const proto = new URL('../runtime.proto', import.meta.url).pathname;
const { svc } = loadPackageDefinition(loadSync(proto, { keepCase: true, longs: Number }));
const client = new svc.runtime.v1.Runtime(
  process.env.SVC_GRPC_ADDRESS ?? '127.0.0.1:4781',
  credentials.createInsecure(),
);
const metadata = new Metadata();
metadata.set('authorization', `Bearer ${process.env.SVC_TOKEN}`);

for await (const { output } of client.Run({ prompt: 'What is a run?' }, metadata))
  process.stdout.write(output?.text ?? '');
process.stdout.write('\n');
client.close();
