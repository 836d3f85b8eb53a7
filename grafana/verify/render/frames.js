// How does an answer of Prometheus become what Grafana's panels draw?

import { FieldType, toDataFrame, transformDataFrame, standardTransformers, standardTransformersRegistry } from "@grafana/data";
import { lastValueFrom } from "rxjs";

standardTransformersRegistry.setInit(() =>
  ["mergeTransformer", "organizeFieldsTransformer", "filterFieldsTransformer", "filterFieldsByNameTransformer",
    "orderFieldsTransformer", "renameFieldsTransformer"]
    .map((name) => standardTransformers[name])
    .map((transformation) => ({
      id: transformation.id, name: transformation.name, transformation: async () => transformation,
      description: "", editor: () => null, imageDark: "", imageLight: "",
    })));

const name = (labels, legend) =>
  legend ? legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? "") : JSON.stringify(labels);

// Grafana draws a point for each step, and a gap where there is no sample.
function overTime({ result }, target, { from, to }) {
  const times = [];
  for (let at = Math.floor(from); at <= to; at += 1) times.push(at);
  return result.map(({ metric, values }) => {
    const at = new Map(values.map(([when, value]) => [Math.floor(when), Number(value)]).filter(([, value]) => !Number.isNaN(value)));
    return toDataFrame({
      refId: target.refId,
      fields: [
        { name: "Time", type: FieldType.time, values: times.map((when) => when * 1000) },
        {
          name: "Value", type: FieldType.number, labels: metric,
          values: times.map((when) => at.get(when) ?? null),
          config: { displayNameFromDS: name(metric, target.legendFormat) },
        },
      ],
    });
  });
}

const moment = ({ result }, target) => result.map(({ metric, value: [when, value] }) => toDataFrame({
  refId: target.refId,
  fields: [
    { name: "Time", type: FieldType.time, values: [when * 1000] },
    {
      name: "Value", type: FieldType.number, labels: metric, values: [Number(value)],
      config: { displayNameFromDS: name(metric, target.legendFormat) },
    },
  ],
}));

function table({ result }, target, many) {
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return [toDataFrame({
    refId: target.refId,
    fields: [
      { name: "Time", type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: result.map(({ metric }) => metric[label] ?? "") })),
      { name: many ? `Value #${target.refId}` : "Value", type: FieldType.number, values: result.map(({ value }) => Number(value[1])) },
    ],
  })];
}

export async function frames(panel, answers, span) {
  const targets = panel.targets ?? [];
  const made = targets.flatMap((target) => {
    const answer = answers[panel.id + target.refId];
    if (target.format === "table") return table(answer, target, targets.length > 1);
    return answer.kind === "over" ? overTime(answer, target, span) : moment(answer, target);
  });
  if (!panel.transformations) return made;
  return lastValueFrom(transformDataFrame(panel.transformations, made));
}
