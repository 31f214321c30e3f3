<?php
namespace Lib;

final class Derived extends Work {}
