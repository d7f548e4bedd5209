// Renders chat templates with the package @huggingface/jinja; started by planner/runtimes/npm_renderer.py.
// One job on standard input, one answer on standard output, both JSON. Nothing is read or written besides.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const job = JSON.parse(readFileSync(0, "utf8"));

// The engine's strftime_now asks for the present; here it is the instant of the job.
const instant = Date.parse(job.now);
globalThis.Date = class extends Date {
  constructor(...given) {
    super(...(given.length ? given : [instant]));
  }
};

const { Template } = await import(pathToFileURL(job.module).href);

function rendered(source, values) {
  try {
    return { text: new Template(source).render(values) };
  } catch (error) {
    return { error: String(error && error.message).slice(0, 200) };
  }
}

const answers = job.cases.map((values) => rendered(job.source, values));
process.stdout.write(JSON.stringify(answers));
