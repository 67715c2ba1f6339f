import { credentials, makeClientConstructor } from '@grpc/grpc-js';
import { service } from 'grpc-health-check';

type Check = (
  request: { service: string },
  answer: (error: Error | null, response?: { status: string }) => void,
) => void;

/** The answer of the standard health service for each name, to a stock client without headers. */
export async function grpcHealth(address: string, names: readonly string[]): Promise<string[]> {
  const Client = makeClientConstructor(service as never, 'Health');
  const client = new Client(address, credentials.createInsecure());
  const check = (client as unknown as { check: Check }).check.bind(client);
  try {
    return await Promise.all(
      names.map(
        (name) =>
          new Promise<string>((resolve, reject) => {
            check({ service: name }, (error, response) =>
              error ? reject(error) : resolve(response?.status ?? ''),
            );
          }),
      ),
    );
  } finally {
    client.close();
  }
}
