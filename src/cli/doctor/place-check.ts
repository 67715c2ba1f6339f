import { isPostgres } from '../../config/index.ts';
import { homeProblems } from '../../daemon/index.ts';
import { type Check, type DoctorContext, fail, warn } from './check.ts';

/** Whether a start can use each file of the home. */
export async function checkPlaces({ paths, inForce }: DoctorContext): Promise<Check[]> {
  const problems = await homeProblems(paths, isPostgres(inForce?.store ?? ''));
  return problems.map(({ message, hint, stops }) => (stops ? fail : warn)('home', message, hint));
}
