// The published command finds no tests (vitest leaves out node_modules), so this file calls the suite.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

runConformanceTests({
  baseUrl: process.env.DURABLE_URL,
  longPollTimeoutMs: 2000,
});
