# sparring/base-torch:cuda: sparring/base with PyTorch's CUDA build and the libraries it needs; the driver is the host's.
# images/build.sh --cuda builds it without a network, from wheels it adds to the context.
ARG BASE=sparring/base:cpu

FROM ${BASE} AS packages
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
USER 0
RUN python3 -m venv /builder
COPY requirements.cuda.lock wheels* /wheels/
# Without the packages' own tests, as on CPUs.
RUN /builder/bin/pip install --no-cache-dir --no-deps --no-compile --target /opt/torch-packages -r /wheels/requirements.cuda.lock \
 && find /opt/torch-packages -type d -name tests -prune -exec rm -r {} + \
 && rm -rf /opt/torch-packages/torch/test /opt/torch-packages/torch/bin/*[Tt]est* /opt/torch-packages/torch/bin/protoc* \
 && python3 -m compileall -q -j 0 -x /testing/_internal/ /opt/torch-packages

FROM ${BASE}
COPY --from=packages /opt/torch-packages /opt/packages
