import { isPostgres } from '../../../config/store/address.ts';
import { homeProblems } from '../../../daemon/home-files.ts';
import { type Check, type DoctorContext, fail, warn } from './check.ts';

/** Whether a start can use each file of the home. */
export async function checkPlaces({ paths, inForce }: DoctorContext): Promise<Check[]> {
  const problems = await homeProblems(paths, isPostgres(inForce?.store ?? ''));
  return problems.map(({ message, hint, stops }) => (stops ? fail : warn)('home', message, hint));
}
